"""A process that forks while SQLite is at work in another thread."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from anarchon.backends.sqlite import SQLiteBackend

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def test_every_child_can_open_the_file(tmp_path: Path) -> None:
    backend = SQLiteBackend.from_url(f"sqlite:///{tmp_path}/store.db")
    stopped = threading.Event()

    async def ask(times: int) -> None:
        store = backend.connect("here")
        for _ in range(times):
            # opening takes the locks that are SQLite's own, and the whole process's
            await store.open()
            await store.active(())
            await store.close()

    def keep_asking() -> None:
        while not stopped.is_set():
            asyncio.run(ask(20))

    threads = [threading.Thread(target=keep_asking) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        children = [_forked(lambda: asyncio.run(ask(1))) for _ in range(60)]
    finally:
        stopped.set()
        for thread in threads:
            thread.join()

    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 60


def _forked(work: Callable[[], object]) -> int:
    child = os.fork()
    if child == 0:
        # a child that hangs is ended by this alarm, and its exit code tells
        signal.alarm(20)
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return child
