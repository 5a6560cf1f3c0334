"""The one thing a project adds to its broker: schedules, the engine, and tracked runs.

It stands first in the broker's list, wherever it was added. So it is asked before any other
whether a message may start, and hears of its end after all others: after Retries has decided
what becomes of it, and outside of what TimeLimit and ShutdownNotifications may interrupt.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

from dramatiq import Actor, Broker, Middleware, Worker
from dramatiq.brokers.stub import StubBroker

from anarchon import ConfigurationError, Scheduler
from anarchon.backends import open_backend
from anarchon.claim_store import AnyBackend, ClaimBackend
from anarchon.job import yes_or_no
from anarchon_dramatiq.declared import Schedules, store_given
from anarchon_dramatiq.engine import Engine
from anarchon_dramatiq.errors import InvalidPeriodic
from anarchon_dramatiq.periodic import Periodic, read_periodic
from anarchon_dramatiq.tracking import Tracking
from anarchon_dramatiq.tracking_end import KEEPS, end, end_skipped, on_enqueued
from anarchon_dramatiq.tracking_start import start

log = logging.getLogger("anarchon.dramatiq")

_OPTION = "periodic"


class AnarchonMiddleware(Middleware):
    """Runs the schedules of a broker's actors, and follows tracked runs to their end.

    ``store`` is a URL or a backend; who shares slots shares it and the ``namespace``. With
    ``embedded`` the workers run the schedule themselves, one process of each machine at a time;
    left out, they do so unless the broker is a stub. The other options are the `Scheduler`'s;
    jobs may overlap unless one says ``overlap="skip"``.

    Raises ``ConfigurationError``.
    """

    def __init__(
        self,
        store: str | AnyBackend,
        *,
        namespace: str = "dramatiq",
        embedded: bool | None = None,
        **scheduler_options: Any,
    ) -> None:
        if embedded is not None:
            yes_or_no("embedded", embedded)
        self._store = store_given(store)
        self._options = {"namespace": namespace, "overlap": "allow", **scheduler_options}
        # says what is wrong with any of it
        self.namespace = Scheduler(self._store, **self._options).namespace
        backend = self._backend()
        self._schedules = Schedules(
            {k: v for k, v in self._options.items() if k not in _OWN},
            backend.label if isinstance(backend, ClaimBackend) else None,
        )
        self._embedded = embedded
        self._broker: Broker | None = None
        self._engine: Engine | None = None
        self._tracking: Tracking | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<AnarchonMiddleware namespace={self.namespace}>"

    @property
    def actor_options(self) -> set[str]:
        """What an actor may be declared with."""
        return {_OPTION, KEEPS}

    def declare(self, broker: Broker, actor: Actor[..., Any], given: list[Periodic]) -> None:
        """Take in schedules of an actor; raises ``InvalidPeriodic``."""
        self._settle(broker)
        names = self._schedules.declare(broker, actor, given)
        if self._engine is not None:
            log.warning(
                "declared after this worker has started: %s; no process runs it that runs the"
                " schedule already: declare it in a module that the worker imports at its start",
                ", ".join(names),
            )

    def make_scheduler(
        self, broker: Broker, store: str | AnyBackend | None = None, **options: Any
    ) -> Scheduler:
        """Return a scheduler with a job for each schedule of the broker."""
        self._settle(broker)
        scheduler = Scheduler(
            self._store if store is None else store, **{**self._options, **options}
        )
        self._schedules.add_to(scheduler, broker)
        return scheduler

    # ------------------------------------------------------------ declaring

    def before_declare_queue(self, broker: Broker, queue_name: str) -> None:
        """Take the first place as soon as the broker is known."""
        self._settle(broker)

    def before_declare_actor(self, broker: Broker, actor: Actor[..., Any]) -> None:
        """Read when an actor is due, while its declaration can still be refused."""
        self._settle(broker)
        given = actor.options.get(_OPTION)
        if given is not None:
            try:
                periodic = read_periodic(given)
            except ConfigurationError as error:
                raise InvalidPeriodic.of(error.of_job(actor.actor_name)) from None
            self.declare(broker, actor, periodic)

    def after_declare_actor(self, broker: Broker, actor: Actor[..., Any]) -> None:
        """Take the first place of a broker that had actors before."""
        self._settle(broker)

    def _settle(self, broker: Broker) -> None:
        if self._broker is None:
            self._broker = broker
        if self._broker is not broker:
            raise InvalidPeriodic(
                "one AnarchonMiddleware stands on two brokers",
                option="middleware",
                fix="make one for each broker",
            )
        if len([one for one in broker.middleware if isinstance(one, AnarchonMiddleware)]) > 1:
            raise InvalidPeriodic(
                "there are two AnarchonMiddlewares on one broker",
                option="middleware",
                fix="add one of them",
            )
        if broker.middleware[0] is not self:
            # a new list: the broker may be walking over the old one
            broker.middleware = [self, *(one for one in broker.middleware if one is not self)]

    # ------------------------------------------------------------ one worker process

    def before_worker_boot(self, broker: Broker, worker: Worker) -> None:
        """Be the first to see its messages."""
        self._settle(broker)

    def after_worker_boot(self, broker: Broker, worker: Worker) -> None:
        """Run the schedule, or wait to."""
        wanted = self._embedded
        if wanted is None:
            wanted = not isinstance(broker, StubBroker)
        if wanted:
            self._engine = Engine(lambda: self.make_scheduler(broker))
            self._engine.start()

    def before_worker_shutdown(self, broker: Broker, worker: Worker) -> None:
        """Claim nothing more; what is begun is kept alive until the worker has stopped."""
        if self._engine is not None:
            self._engine.tell()

    def after_worker_shutdown(self, broker: Broker, worker: Worker) -> None:
        """Hand over, and let go of the store."""
        if self._engine is not None:
            self._engine.join()
            self._engine = None
        if self._tracking is not None:
            self._tracking.close()
            self._tracking = None

    # ------------------------------------------------------------ one message

    def before_process_message(self, broker: Broker, message: Any) -> None:
        """Ask whether the message may start."""
        start(self._followed(), broker, message)

    def after_enqueue(self, broker: Broker, message: Any, delay: int | None) -> None:
        """Hear of retries."""
        on_enqueued(message, delay)

    def after_process_message(
        self,
        broker: Broker,
        message: Any,
        *,
        result: Any = None,
        exception: BaseException | None = None,
    ) -> None:
        """Tell how it ended."""
        end(self._followed(), broker, message, result, exception)

    def after_skip_message(self, broker: Broker, message: Any) -> None:
        """Tell that it was skipped, if it was by another."""
        end_skipped(self._followed(), message)

    def _followed(self) -> Tracking:
        with self._lock:
            if self._tracking is None:
                self._tracking = Tracking(self._backend(), self.namespace)
            return self._tracking

    def _backend(self) -> AnyBackend:
        store = self._store
        return open_backend(store) if isinstance(store, str) else store


#: Options of a scheduler that are none of its jobs'.
_OWN = frozenset(("namespace", "name", "grace", "max_threads", "max_publishing", "clock"))
