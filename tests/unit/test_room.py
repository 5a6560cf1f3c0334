"""Who may start, in which order, and who waited too long."""

import functools

from anarchon.scheduler.room import Room
from anarchon.testing import ManualClock


class Guests:
    """Whoever asks a room for a place, by name."""

    def __init__(self, places: int | None) -> None:
        self.clock = ManualClock()
        self.room = Room(places, self.clock)
        self.started: list[str] = []
        self.too_late: list[str] = []

    def come(self, *names: str, seconds: float = 10) -> None:
        for name in names:
            self.room.enter(
                seconds,
                functools.partial(self.started.append, name),
                functools.partial(self.too_late.append, name),
            )


async def test_as_many_start_as_there_are_places_and_the_others_in_the_order_they_came() -> None:
    guests = Guests(2)

    guests.come("a", "b", "c", "d")
    assert guests.started == ["a", "b"]
    guests.room.leave()
    guests.room.leave()
    guests.room.leave()

    assert guests.started == ["a", "b", "c", "d"]
    guests.come("e")
    assert guests.started[-1] == "e"


async def test_who_waited_too_long_is_told_and_never_started() -> None:
    guests = Guests(1)
    guests.come("a")
    guests.come("patient", seconds=10)
    guests.come("hasty", seconds=3)

    await guests.clock.advance(5)
    assert guests.too_late == ["hasty"]
    guests.room.leave()
    guests.room.leave()

    assert guests.started == ["a", "patient"]
    assert guests.too_late == ["hasty"]


async def test_each_is_told_at_its_own_time() -> None:
    guests = Guests(0)
    guests.come("second", seconds=6)
    guests.come("first", seconds=3)
    guests.come("third", seconds=9)

    await guests.clock.advance(4)
    assert guests.too_late == ["first"]
    await guests.clock.advance(10)
    assert guests.too_late == ["first", "second", "third"]


async def test_who_is_late_when_it_comes_is_told_at_once() -> None:
    guests = Guests(None)

    guests.come("late", seconds=-0.001)

    assert (guests.started, guests.too_late) == ([], ["late"])


async def test_an_emptied_room_forgets_who_waits() -> None:
    guests = Guests(1)
    guests.come("a", "b", "c")

    guests.room.empty()
    guests.room.leave()
    await guests.clock.advance(20)

    assert (guests.started, guests.too_late) == (["a"], [])


async def test_a_room_without_walls_starts_everybody() -> None:
    guests = Guests(None)

    guests.come(*"abcdefghij")

    assert len(guests.started) == 10
