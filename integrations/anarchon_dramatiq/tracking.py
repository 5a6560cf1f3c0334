"""One worker process, as far as tracked runs are concerned: its name, and what it is at work on."""

from __future__ import annotations

import logging
import secrets
import socket
from collections.abc import Collection
from typing import Any

from anarchon.claim_store import AnyBackend, ClaimBackend
from anarchon.clock import SystemClock
from anarchon.message import HEADER, Malformed, PublishedRun, run_of
from anarchon.worker import Delivery, Renewals, Tracker

log = logging.getLogger("anarchon.dramatiq")


class Tracking:
    """What a process knows of the tracked runs whose messages it was given."""

    def __init__(self, backend: AnyBackend, namespace: str) -> None:
        self._namespace = namespace
        self._at_work: dict[str, PublishedRun] = {}
        self._warned: set[str] = set()
        self._claims_only: str | None = None
        if isinstance(backend, ClaimBackend):
            # nothing can be tracked on it
            self._claims_only = backend.label
            return
        holder = f"{socket.gethostname()}-{secrets.token_hex(4)}"
        self.tracker = Tracker(backend, namespace, holder)
        self._renewals = Renewals(
            lambda: backend.connect(namespace),
            SystemClock(),
            holder,
            known=self._known,
            active=self._known,
        )

    def run_of(self, message: Any) -> PublishedRun | None:
        """Return the run that a message is for; warns once of what is not ours."""
        said = message.options.get(HEADER)
        if said is None:
            return None
        try:
            run = run_of(said)
        except Malformed as error:
            self._warn("malformed", f"a message's option {HEADER!r} is not ours: {error}")
            return None
        if run.namespace != self._namespace:
            self._warn(
                f"namespace {run.namespace}",
                f"a message is of a run in the namespace {run.namespace!r}, and this worker's is"
                f" {self._namespace!r} (give AnarchonMiddleware the same namespace where they"
                " share jobs)",
            )
            return None
        if run.is_tracked and self._claims_only is not None:
            self._warn(
                "claims only",
                f"a message is of a tracked run, and {self._claims_only} keeps no leases (give"
                " AnarchonMiddleware the store of who sent it)",
            )
            return None
        return run

    def keep(self, delivery: Delivery) -> None:
        """Renew the lease of a run from now on."""
        self._at_work[delivery.nonce] = delivery.run
        self._renewals.call()

    def leave(self, delivery: Delivery) -> None:
        """Renew it no more."""
        self._at_work.pop(delivery.nonce, None)

    def close(self) -> None:
        """Let go of the store, once what is still to be said was said or a while has passed."""
        if self._claims_only is not None:
            return
        self.tracker.close(5.0)
        self._renewals.close(1.0)

    def _known(self) -> Collection[PublishedRun]:
        return list(self._at_work.values())

    def _warn(self, once: str, problem: str) -> None:
        if once not in self._warned:
            self._warned.add(once)
            log.warning("%s; its actor runs untracked", problem)
