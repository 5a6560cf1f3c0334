"""A broker in this process with a worker, and actors that end in any way there is."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import dramatiq
from dramatiq import Actor, Broker, Middleware, Worker
from dramatiq.brokers.stub import StubBroker
from dramatiq.middleware import (
    AgeLimit,
    AsyncIO,
    CurrentMessage,
    Retries,
    ShutdownNotifications,
    TimeLimit,
)
from dramatiq.results import Results
from dramatiq.results.backends import StubBackend

from anarchon.backends import open_backend
from anarchon.claim_store import AnyBackend, ClaimBackend
from anarchon.errors import OutcomeUnknown, StoreError, StoreUnavailable
from anarchon.message import HEADER
from anarchon.store import Begin, LeaseStore, Reply
from anarchon_dramatiq import AnarchonMiddleware, current_run
from tests.celery.tracked import NAMESPACE


def declare(broker: Broker, deed: Callable[..., Any], **options: Any) -> Actor[..., Any]:
    """Declare an actor; its options are a test's, and may be of any type."""
    make: Any = dramatiq.actor
    actor: Actor[..., Any] = make(deed, broker=broker, **options)
    return actor


class Switched:
    """A backend whose answer to `begin` can be switched off."""

    def __init__(self, url: str) -> None:
        backend = open_backend(url)
        assert not isinstance(backend, ClaimBackend)
        self._backend = backend
        self.label = "switched"
        self.is_on = True
        #: How often to refuse to answer, which whoever asks takes for an answer.
        self.refusals = 0
        #: Let the store begin, and lose its answer.
        self.loses_answers = False

    def connect(self, namespace: str) -> LeaseStore:
        return _SwitchedStore(self._backend.connect(namespace), self)


class _SwitchedStore:
    def __init__(self, store: LeaseStore, switch: Switched) -> None:
        self._store = store
        self._switch = switch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def begin(self, begins: Sequence[Begin]) -> Reply[bool]:
        if self._switch.refusals:
            self._switch.refusals -= 1
            raise StoreError("switched", "it refuses")
        if not self._switch.is_on:
            raise StoreUnavailable("switched", "it is off")
        reply = await self._store.begin(begins)
        if self._switch.loses_answers:
            raise OutcomeUnknown("switched", "its answer was lost")
        return reply


class Bench:
    """A stub broker, its worker, and what its actors did."""

    def __init__(
        self, store: str | AnyBackend, *more: Middleware, embedded: bool | None = None
    ) -> None:
        self.results = StubBackend()
        self.ours = AnarchonMiddleware(store, namespace=NAMESPACE, embedded=embedded)
        theirs = [
            AgeLimit(),
            TimeLimit(interval=50),
            ShutdownNotifications(),
            CurrentMessage(),
            AsyncIO(),
            Retries(min_backoff=100, max_backoff=200),
            Results(backend=self.results),
            *more,
        ]
        self.broker = StubBroker(middleware=[*theirs, self.ours])
        self.broker.emit_after("process_boot")
        self.bodies: list[dict[str, Any]] = []
        self.told: list[Any] = []
        self.release = threading.Event()
        self.entered = threading.Event()
        self.worker = Worker(self.broker, worker_timeout=50, worker_threads=2)

    def actor(self, deed: Callable[..., Any], **options: Any) -> Actor[..., Any]:
        """Declare an actor that does this, and notes that it began."""

        def act(*args: Any) -> Any:
            run, message = current_run(), CurrentMessage.get_current_message()
            assert message is not None
            retries = message.options.get("retries", 0)
            self.bodies.append({"run": run, "retries": retries, "options": message.options})
            self.entered.set()
            return deed(*args)

        return declare(self.broker, act, **{"actor_name": "act", "store_results": True, **options})

    def send(self, actor: Actor[..., Any], said: Any, **options: Any) -> Any:
        """Send a message with our option, as a publisher would."""
        return actor.send_with_options(**{HEADER: said, **options})

    def settle(self) -> None:
        """Wait until nothing is left in the queue."""
        self.broker.join("default", fail_fast=False, timeout=20_000)
        self.worker.join()

    def start(self) -> None:
        self.worker.start()

    def stop(self) -> None:
        self.release.set()
        self.worker.stop(timeout=5_000)
        self.broker.close()

    def raising(self, error: BaseException, times: int = 1) -> Callable[[], str]:
        """Return a deed that fails so often, and then succeeds."""

        def deed() -> str:
            if len(self.bodies) <= times:
                raise error
            return "done"

        return deed


class Hooks(Middleware):
    """Notes which hooks of messages were called, and does in one of them as a test says."""

    def __init__(self, **deeds: Callable[[Any], Any]) -> None:
        self.seen: list[str] = []
        self._deeds = deeds

    def _see(self, hook: str, message: Any) -> None:
        self.seen.append(hook)
        if hook in self._deeds:
            self._deeds[hook](message)

    def before_process_message(self, broker: Any, message: Any) -> None:
        self._see("before_process", message)

    def after_process_message(self, broker: Any, message: Any, **_: Any) -> None:
        self._see("after_process", message)

    def after_skip_message(self, broker: Any, message: Any) -> None:
        self._see("after_skip", message)

    def before_enqueue(self, broker: Any, message: Any, delay: int | None) -> None:
        self._see("before_enqueue", message)

    def before_ack(self, broker: Any, message: Any) -> None:
        self._see("before_ack", message)

    def before_nack(self, broker: Any, message: Any) -> None:
        self._see("before_nack", message)
