"""One app's worker, as far as tracked runs are concerned: who it is, and what it is at work on.

A message of ours is met three times. Its arrival in the main process gives the delivery its
nonce, which travels on to whichever process runs the task; the start asks the store
(``tracking_start``); the end is recorded by whoever knows it (``tracking_end``): the process
that ran the task, or the main process if that one was lost.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import weakref
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from celery import Celery
from celery.worker import state as worker_state

from anarchon import ConfigurationError
from anarchon.backends import open_backend
from anarchon.claim_store import ClaimBackend
from anarchon.clock import SystemClock
from anarchon.message import HEADER, Malformed, PublishedRun, run_of
from anarchon.worker import Delivery, Renewals, Tracker
from anarchon_celery.answering import Following
from anarchon_celery.settings import namespace_of, store_of

log = logging.getLogger("anarchon.celery")

#: What pools of other processes than forked ones are told their worker's name by.
_HOLDER = "ANARCHON_WORKER"
_NONCE = "anarchon_nonce"
_LIMITLESS = ("celery.concurrency.thread", "celery.concurrency.solo")

T = TypeVar("T")


class WorkerTracking:
    """What the processes of one worker know of it; a forked child has its parent's."""

    def __init__(self, app: Celery) -> None:
        self._app = weakref.ref(app)
        self._worker: Any = None
        self._main: int | None = None
        self._tracker: Tracker | None = None
        self._renewals: Renewals | None = None
        #: The label of a store that keeps no leases: nothing can be tracked on it.
        self._claims_only: str | None = None
        self._holder = ""
        self.following: Following | None = None
        self._warned: set[str] = set()
        self._received: weakref.WeakKeyDictionary[Any, PublishedRun] = weakref.WeakKeyDictionary()
        #: Begun in this process without a worker, by nonce.
        self.eager: dict[str, PublishedRun] = {}
        #: Nonces of what has failed by its time limit, and works on.
        self.over: set[str] = set()

    @property
    def app(self) -> Celery:
        app = self._app()
        assert app is not None, "its tasks and its worker keep it"
        return app

    @property
    def tracker(self) -> Tracker:
        """The way to the store; made when a process that no worker has started needs it."""
        self._be_prepared()
        assert self._tracker is not None, "nothing is tracked on a store without leases"
        return self._tracker

    @property
    def is_child(self) -> bool:
        """Tell whether this process runs tasks for another one, which hears how they end."""
        return _is_spawned() or (self._main is not None and self._main != os.getpid())

    @property
    def ignores_limits(self) -> bool:
        """Tell whether no task of this pool is ended by its time limit."""
        pool = getattr(self._worker, "pool_cls", None)
        return not self.is_child and getattr(pool, "__module__", None) in _LIMITLESS

    def start(self, worker: Any) -> None:
        """Become this worker, before it has children.

        Raises ``SystemExit`` where its settings do not say which store to ask.
        """
        self._worker, self._main = worker, os.getpid()
        try:
            self._prepare(f"{worker.hostname}-{secrets.token_hex(4)}")
        except ConfigurationError as error:
            raise SystemExit(f"tracked runs: {error}") from error
        os.environ[_HOLDER] = self._holder

    def _be_prepared(self) -> None:
        if self.following is None:
            self._prepare(os.environ.get(_HOLDER) if _is_spawned() else None)

    def _prepare(self, holder: str | None) -> None:
        self._holder = holder or f"{socket.gethostname()}-{secrets.token_hex(4)}"
        backend, namespace = open_backend(store_of(self.app)), namespace_of(self.app)
        self.following = Following(backend.label, namespace)
        if isinstance(backend, ClaimBackend):
            self._claims_only = backend.label
            return
        self._renewals = Renewals(
            lambda: backend.connect(namespace),
            SystemClock(),
            self._holder,
            known=self._known,
            active=self._active,
        )
        self._tracker = Tracker(backend, namespace, self._holder)

    def receive(self, request: Any) -> None:
        """Make a nonce for a delivery that has come, and keep alive what it will begin."""
        said = request.request_dict.get(HEADER)
        if said is None:
            return
        run = self.run_said(said)
        if run is None or not run.is_tracked:
            return
        # not among the headers: those are copied into the message of a retry
        properties = request.request_dict.get("properties") or {}
        request.request_dict["properties"] = {**properties, _NONCE: secrets.token_hex(8)}
        self._received[request] = run
        self.keep_alive()

    def keep_alive(self) -> None:
        """Renew the leases of what this process knows to be worked on."""
        if self._renewals is not None:
            self._renewals.call()

    def run_of(self, request: Any) -> PublishedRun | None:
        """Return the run that a task's request is for; warns once of what is not ours."""
        said = request.get(HEADER)
        if said is None:
            said = (request.headers or {}).get(HEADER)
        return None if said is None else self.run_said(said)

    def run_said(self, said: object) -> PublishedRun | None:
        try:
            run = run_of(said)
        except Malformed as error:
            self._warn("malformed", f"a message's header {HEADER!r} is not ours: {error}")
            return None
        namespace = namespace_of(self.app)
        if run.namespace != namespace:
            self._warn(
                f"namespace {run.namespace}",
                f"a message is of a run in the namespace {run.namespace!r}, and this worker's is"
                f" {namespace!r} (set anarchon_namespace alike where they share jobs)",
            )
            return None
        if run.is_tracked and self._is_on_claims_only():
            self._warn(
                "claims only",
                f"a message is of a tracked run, and {self._claims_only} keeps no leases (set"
                " anarchon_store to the store of who sent it)",
            )
            return None
        return run

    def _is_on_claims_only(self) -> bool:
        self._be_prepared()
        return self._claims_only is not None

    def delivery_of(self, run: PublishedRun, request: Any, *, received: bool) -> Delivery | None:
        """Return the delivery that a request is; ``None`` if it was to be received and was not."""
        nonce = (request.properties or {}).get(_NONCE)
        if nonce is None and received:
            return None
        return Delivery(run, request.retries or 0, nonce or secrets.token_hex(8), request.id)

    def delivery_received(self, request: Any) -> Delivery | None:
        """Return the tracked delivery that came with a worker's request, if it is one."""
        run = self._received.get(request)
        if run is None:
            return None
        said = request.request_dict
        return Delivery(run, said.get("retries") or 0, said["properties"][_NONCE], request.id)

    def _warn(self, once: str, problem: str) -> None:
        # the main process has met the message before its child
        if once not in self._warned and not self.is_child:
            self._warned.add(once)
            log.warning("%s; its task runs untracked", problem)

    def _known(self) -> Collection[PublishedRun]:
        received = _steadily(lambda: list(self._received.values()))
        return [*received, *_steadily(lambda: list(self.eager.values()))]

    def _active(self) -> Collection[PublishedRun]:
        active = [
            run
            for request, run in _steadily(lambda: list(self._received.items()))
            if request in worker_state.active_requests
            and request.request_dict["properties"][_NONCE] not in self.over
        ]
        return [*active, *_steadily(lambda: list(self.eager.values()))]

    def close(self) -> None:
        """Let go of the store, once what is still to be said was said or a while has passed."""
        if self._tracker is not None:
            self._tracker.close(5.0)
        if self._renewals is not None and not self.is_child:
            self._renewals.close(1.0)


_BY_APP: weakref.WeakKeyDictionary[Celery, WorkerTracking] = weakref.WeakKeyDictionary()


def tracking_of(app: Celery) -> WorkerTracking | None:
    """Return what is known of an app's worker, if it was connected."""
    return _BY_APP.get(app)


def begin_tracking(app: Celery) -> bool:
    """Know of an app's worker from now on; false if it was known."""
    if app in _BY_APP:
        return False
    _BY_APP[app] = WorkerTracking(app)
    return True


def every_tracking() -> list[WorkerTracking]:
    """Return what is known of the workers of this process; there is hardly ever but one."""
    return list(_BY_APP.values())


def _is_spawned() -> bool:
    return bool(os.environ.get("FORKED_BY_MULTIPROCESSING"))


def _steadily(read: Callable[[], list[T]]) -> list[T]:
    """Read what another thread may be changing."""
    while True:
        try:
            return read()
        except RuntimeError:
            continue
