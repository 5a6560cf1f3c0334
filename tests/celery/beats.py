"""A project of periodic tasks in a folder, the ways it is run, and what reached its broker."""

import threading
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from kombu import Connection, Queue

from tests.programs import Program

PROJECT = """
from celery import Celery, signals

app = Celery("shop", broker={broker!r})
app.conf.update({settings!r}, result_expires=None)
app.conf.anarchon_store = {store!r}
app.conf.beat_schedule = {{
    f"job-{{n}}": {{"task": "shop.note", "schedule": 1.0, "args": [n]}} for n in range({jobs})
}}

@app.task(name="shop.note")
def note(n):
    pass
"""

#: Raises `SystemExit` in the scheduler's thread, from outside, at a SIGWINCH.
END_ITS_THREAD = """
import ctypes, signal, threading

def end_it(*_):
    for thread in threading.enumerate():
        if thread.name == "anarchon-scheduler":
            number = ctypes.c_ulong(thread.ident)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(number, ctypes.py_object(SystemExit))

signal.signal(signal.SIGWINCH, end_it)
"""

Start = Callable[..., Program]


def write_project(
    folder: Path,
    broker: str,
    *,
    store: str | None = None,
    jobs: int = 1,
    more: str = "",
    **settings: Any,
) -> None:
    """Write `proj.py`, whose jobs are due every second."""
    text = PROJECT.format(broker=broker, store=store or broker, jobs=jobs, settings=settings)
    (folder / "proj.py").write_text(text + more)


class Outbox:
    """What was published to a queue of a broker, and not taken by a worker."""

    def __init__(self, broker: str, queue: str = "celery") -> None:
        self._connection = Connection(broker)
        self._queue = Queue(queue).bind(self._connection.default_channel)
        self._queue.purge()
        self.headers: list[dict[str, Any]] = []

    def drain(self) -> int:
        """Take what waits there; return how many messages have come so far."""
        while (message := self._queue.get(no_ack=True)) is not None:
            self.headers.append(message.headers)
        return len(self.headers)

    def slots(self) -> dict[str, list[datetime]]:
        """Return the slots of each job, each as often as it was published."""
        self.drain()
        slots: dict[str, list[datetime]] = {}
        for headers in self.headers:
            run = headers["anarchon"]
            slots.setdefault(run["job"], []).append(datetime.fromisoformat(run["slot"]))
        return {job: sorted(found) for job, found in slots.items()}

    def close(self) -> None:
        """Let the connection go."""
        self._queue.purge()
        self._connection.release()


def assert_every_slot_once(slots: dict[str, list[datetime]], jobs: int) -> None:
    """Check that each job was published for each second between its first slot and its last."""
    assert len(slots) == jobs
    for job, found in slots.items():
        twice = [str(slot) for slot, count in Counter(found).items() if count > 1]
        assert not twice, f"{job} was published twice for {twice}"
        gaps = [str(a) for a, b in pairwise(found) if b - a != timedelta(seconds=1)]
        assert not gaps, f"{job} was not published after {gaps}"


def wait_until(condition: Callable[[], bool], seconds: float = 50) -> None:
    """Ask again and again until it is so."""
    pause = threading.Event()
    for _ in range(int(seconds / 0.1)):
        if condition():
            return
        pause.wait(0.1)
    raise AssertionError("it never came to be")
