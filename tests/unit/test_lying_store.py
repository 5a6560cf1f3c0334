"""The ways in which a simulated store lies, one by one."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TypeVar

import pytest

from anarchon.backends.memory import Saved
from anarchon.errors import OutcomeUnknown, StoreUnavailable
from anarchon.store import Outcome
from anarchon.testing.lying_store import Fate, LyingLink, LyingServer
from anarchon.testing.virtual_time import VirtualClock, VirtualLoop
from anarchon_contract.leases.questions import Asker

T = TypeVar("T")
START = datetime(2026, 1, 1, 12, tzinfo=UTC)
SLOT = START + timedelta(seconds=10)


class Fated(LyingLink):
    """A way to the server whose next calls have the fates named."""

    def __init__(self, server: LyingServer, clock: VirtualClock) -> None:
        super().__init__(server, clock, Random(1))
        self.fates: list[Fate] = []

    def _fate(self) -> Fate:
        return self.fates.pop(0) if self.fates else Fate.ANSWERED


class Scene:
    def __init__(self, loop: VirtualLoop) -> None:
        self.clock = VirtualClock(loop, START)
        self.server = LyingServer(self.clock)
        self.link = Fated(self.server, self.clock)
        self.ask = Asker(self.link.connect("default"))

    async def answered(self, call: Awaitable[T], seconds: float = 1.0) -> T | None:
        """Return the answer, or ``None`` if none came in time."""
        try:
            async with self.clock.timeout(seconds):
                return await call
        except TimeoutError:
            return None


def played(play: Callable[[Scene], Awaitable[None]]) -> None:
    loop = VirtualLoop()
    scene = Scene(loop)

    async def whole() -> None:
        await scene.ask.register()
        await scene.clock.sleep(11)
        await play(scene)

    loop.run_until_complete(whole())
    loop.close()


def test_a_reply_is_lost_after_the_store_did_what_was_asked() -> None:
    async def play(scene: Scene) -> None:
        scene.link.fates = [Fate.NO_REPLY]
        assert await scene.answered(scene.ask.claim(SLOT, "a")) is None
        assert (await scene.ask.claim(SLOT, "b")).outcome is Outcome.RUNNING
        assert (await scene.ask.claim(SLOT, "a")).outcome is Outcome.WON

    played(play)


@pytest.mark.parametrize(
    ("fate", "error", "done"),
    [
        (Fate.CONNECTION_LOST, OutcomeUnknown, True),
        (Fate.REFUSED, StoreUnavailable, False),
    ],
)
def test_a_call_that_fails_says_whether_it_may_have_been_done(
    fate: Fate, error: type[Exception], done: bool
) -> None:
    async def play(scene: Scene) -> None:
        scene.link.fates = [fate]
        with pytest.raises(error):
            await scene.ask.claim(SLOT, "a")
        after = (await scene.ask.claim(SLOT, "b")).outcome
        assert after is (Outcome.RUNNING if done else Outcome.WON)

    played(play)


def test_a_request_that_never_arrives_changes_nothing() -> None:
    async def play(scene: Scene) -> None:
        scene.link.fates = [Fate.NEVER_ARRIVED]
        assert await scene.answered(scene.ask.claim(SLOT, "a")) is None
        assert (await scene.ask.claim(SLOT, "b")).outcome is Outcome.WON

    played(play)


def test_a_late_request_arrives_though_its_caller_gave_up() -> None:
    async def play(scene: Scene) -> None:
        scene.link.fates = [Fate.LATE]
        assert await scene.answered(scene.ask.claim(SLOT, "a"), 0.01) is None
        await scene.clock.sleep(10)
        assert (await scene.ask.claim(SLOT, "b")).outcome is Outcome.RUNNING

    played(play)


def test_what_arrives_while_the_server_is_paused_is_done_when_it_goes_on() -> None:
    async def play(scene: Scene) -> None:
        scene.server.pause()
        assert await scene.answered(scene.ask.claim(SLOT, "a")) is None
        scene.server.resume()
        assert (await scene.ask.claim(SLOT, "b")).outcome is Outcome.RUNNING

    played(play)


def test_a_server_that_forgets_gives_a_slot_away_again() -> None:
    async def play(scene: Scene) -> None:
        scene.server.remember()
        first = await scene.ask.claim(SLOT, "a")
        scene.server.forget()
        second = await scene.ask.claim(SLOT, "b")
        assert (first.outcome, second.outcome) == (Outcome.WON, Outcome.WON)
        assert scene.server.watch.broken == []

    played(play)


def test_a_server_that_is_down_refuses_until_it_is_up() -> None:
    async def play(scene: Scene) -> None:
        scene.server.go_down()
        with pytest.raises(StoreUnavailable):
            await scene.ask.claim(SLOT, "a")
        scene.server.come_up()
        assert (await scene.ask.claim(SLOT, "b")).outcome is Outcome.WON

    played(play)


def test_the_watch_at_the_door_sees_a_slot_won_by_two() -> None:
    async def play(scene: Scene) -> None:
        await scene.ask.claim(SLOT, "a")
        scene.server.backend.restore(Saved())
        await scene.clock.sleep(1)
        await scene.ask.claim(SLOT, "b")
        assert [what.partition(":")[0] for what in scene.server.watch.broken] == ["G1"]

    played(play)
