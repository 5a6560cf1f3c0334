"""The measured times of chaos, on made-up evidence: a late takeover and a silence are seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from tests.cluster import judging
from tests.cluster.cluster import Cluster
from tests.cluster.faults import Fault, WayLost
from tests.cluster.judging import Aftermath
from tests.cluster.kinds import service
from tests.cluster.noted import Note
from tests.cluster.places import Place, Start
from tests.cluster.ways import Straight

T0 = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


@pytest.fixture(autouse=True)
def _notes_count_from_t0(monkeypatch):
    monkeypatch.setattr("tests.cluster.noted.moment", at)


@dataclass
class FakeCluster:
    places: list[Place]
    folder: Path = field(default_factory=Path)


def place(number: int, *starts: Start) -> Place:
    made = Place(number, service(), Path(), {}, Straight(None))
    made.starts.extend(starts)
    return made


def began(by: str, second: float, *, slot: float, attempt: int = 1) -> Note:
    said: dict[str, Any] = {"job": "coroutine-allow", "attempt": attempt, "fence": attempt}
    return {"what": "began", "by": by, "at": second, "slot": at(slot).isoformat(), **said}


def aftermath(places: list[Place], faults: Sequence[Fault], notes: list[Note]) -> Aftermath:
    return Aftermath(cast(Cluster, FakeCluster(places)), faults, notes, at(100))


def one_killed(*notes: Note) -> Aftermath:
    """Two instances, of which one is killed at second 21 in the midst of slot 20."""
    doomed = place(0, Start("doomed", at(0), at(1), at(21), killed=True))
    other = place(1, Start("other", at(0), at(1)))
    return aftermath([doomed, other], [], [began("doomed", 20.1, slot=20), *notes])


def test_a_takeover_is_timed_from_the_kill_and_in_time_within_its_bound():
    [takeover] = one_killed(began("other", 25.0, slot=20, attempt=2)).takeovers()

    assert takeover.delay == timedelta(seconds=4)
    assert takeover.is_clean
    assert not takeover.is_late


def test_a_takeover_beyond_its_bound_is_late_and_so_is_one_that_never_came():
    beyond = 21 + 5.5 + judging.PATIENCE.total_seconds() + 0.1
    [late] = one_killed(began("other", beyond, slot=20, attempt=2)).takeovers()
    [never] = one_killed().takeovers()

    assert late.is_late
    assert never.is_late


def test_another_slot_is_no_takeover_where_runs_may_overlap():
    [takeover] = one_killed(began("other", 22.0, slot=22)).takeovers()

    assert takeover.delay is None


def test_a_takeover_is_not_judged_where_nobody_was_well():
    doomed = place(0, Start("doomed", at(0), at(1), at(21), killed=True))
    late = place(1, Start("late", at(30), at(31)))
    [takeover] = aftermath([doomed, late], [], [began("doomed", 20.1, slot=20)]).takeovers()

    assert not takeover.is_late


def cut_off(shown: list[tuple[datetime, bool]], *notes: Note) -> Aftermath:
    """One instance, cut off from second 10 to 20."""
    only = place(0, Start("only", at(0), at(1)))
    only.shown.extend(shown)
    fault = WayLost("black hole", [only], 10, lambda place: None)
    fault.began, fault.healed = at(10), at(20)
    return aftermath([only], [fault], list(notes))


def test_a_recovery_is_timed_from_the_healing_to_the_first_sign_of_life():
    [by_work] = cut_off([(at(11), False)], began("only", 23.0, slot=23)).recoveries()
    [by_word] = cut_off([(at(11), False), (at(22), True)]).recoveries()

    assert by_work.delay == timedelta(seconds=3)
    assert by_word.delay == timedelta(seconds=2)


def test_an_instance_that_shows_for_ten_seconds_that_it_waits_has_not_recovered():
    [recovery] = cut_off([(at(11), False)]).recoveries()

    assert recovery.delay is None
