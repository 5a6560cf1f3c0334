"""Feels whether the store answers: a machine that is too busy must not pass for a faulty engine."""

from __future__ import annotations

import threading
from typing import Self

from anarchon.testing.evidence import Fault, Trouble
from tests.cluster.stores import Store
from tests.cluster.true_time import boot, moment

_EVERY = 0.3
#: What takes longer leaves too little of a lease's heartbeat.
_TOO_LONG = 0.5


class Pulse:
    """Writes to the store again and again on a thread; remembers when that took too long."""

    def __init__(self, store: Store) -> None:
        self.stalls: list[Trouble] = []
        self._store = store
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._feel, name="pulse", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _feel(self) -> None:
        while not self._over.wait(_EVERY):
            asked = boot()
            # one that is down says so at once: that is no stall
            self._store.touch()
            answered = boot()
            if answered - asked > _TOO_LONG:
                self.stalls.append(Trouble(Fault.AWAY, moment(asked), moment(answered)))
        self._store.let_go()
