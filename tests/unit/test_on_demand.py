"""A thread that comes and goes: whoever calls in between is heard by the next one."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from anarchon.clock import Bell, SystemClock
from anarchon.threads import OSThread
from anarchon.worker.on_demand import OnDemand


class Works(OnDemand):
    """Goes to rest at once the first time, and is gone when the test lets it; then it stays."""

    def __init__(self) -> None:
        self.lives = 0
        self.rests, self.may_be_gone = threading.Event(), threading.Event()
        self.heard: threading.Semaphore = threading.Semaphore(0)
        self.ends: list[BaseException | None] = []
        super().__init__("works")

    async def work(self, bell: Bell) -> None:
        self.lives += 1
        if self.lives == 1:
            assert self.may_rest(self._calls)
            self.rests.set()
            self.may_be_gone.wait(10)
            return
        while not self._closing:
            self.heard.release()
            await SystemClock().wait(bell, 10)
            bell.clear()

    def ended(self, error: BaseException | None) -> None:
        self.ends.append(error)


@pytest.fixture
def works() -> Iterator[Works]:
    works = Works()
    yield works
    works.may_be_gone.set()
    works.close(10)


def test_one_that_goes_to_rest_leaves_its_successor_in_its_place(works: Works) -> None:
    works.call()
    assert works.rests.wait(10)
    works.call()
    works.may_be_gone.set()
    assert works.heard.acquire(timeout=10)

    works.call()

    assert works.heard.acquire(timeout=10)
    assert works.ends == []
    assert works.lives == 2


def test_one_that_could_not_be_started_is_tried_again(
    works: Works, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: OSThread) -> None:
        raise RuntimeError("can't start new thread")

    works.lives = 1
    with monkeypatch.context() as patch:
        patch.setattr(OSThread, "start", refuse)
        works.call()
    assert [str(error) for error in works.ends] == ["can't start new thread"]

    works.call()

    assert works.heard.acquire(timeout=10)
