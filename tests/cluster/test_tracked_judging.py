"""The judge of chaos among tracked runs, on made-up stories: what is planted in them is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from anarchon.clock import to_millis
from tests.cluster.faults import Fault, Frozen
from tests.cluster.kinds import tracked_beat, worker
from tests.cluster.places import Place, Start
from tests.cluster.tracked_evidence import TrackedAftermath
from tests.cluster.tracked_judging import Judged, judge
from tests.cluster.ways import Straight
from tests.cluster.workers import WorkerPlace

T0 = datetime(2026, 1, 1, tzinfo=UTC)
EVERY = {
    "short-skip": 2,
    "long-skip": 3,
    "retried-skip": 4,
    "retried-allow": 4,
    "late-ack-allow": 4,
    "late-ack-skip": 10,
    "once-allow": 5,
    "unasked-allow": 5,
}
UNTIL = 100


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


@pytest.fixture(autouse=True)
def _notes_count_from_t0(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.cluster.noted.moment", at)
    monkeypatch.setattr("tests.cluster.tracked_evidence.moment", at)


@dataclass
class Story:
    """What one scheduler and two workers wrote down, and the history of it."""

    notes: list[dict[str, Any]] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    beat: Place = field(init=False)
    workers: list[WorkerPlace] = field(init=False)

    def __post_init__(self) -> None:
        nowhere = Straight(None)
        self.beat = Place(0, tracked_beat(), Path(), {}, nowhere)
        self.beat.starts.append(Start("beat", at(0), at(0)))
        self.workers = [WorkerPlace(n, worker(), Path(), {}, nowhere) for n in (1, 2)]
        for name, place in zip(("one", "two"), self.workers, strict=True):
            place.starts.append(Start(name, at(0), at(0)))

    def sent(self, job: str, slot: int, attempt: int = 1, after: float = 0.1) -> None:
        self._note("sent", "beat", slot + after, **_run(job, slot, attempt))

    def worked(
        self,
        job: str,
        slot: int,
        attempt: int = 1,
        *,
        after: float = 0.3,
        lasts: float | None = 0.5,
        by: str = "one",
        retry: int = 0,
        outcome: str = "success",
    ) -> None:
        run = {**_run(job, slot, attempt), "retry": retry, "pid": 1}
        self._note("received", by, slot + after - 0.1, **run)
        self._note("began", by, slot + after, **run)
        if lasts is not None:
            self._note("ended", by, slot + after + lasts, outcome=outcome, **run)

    def told(
        self,
        job: str,
        slot: int,
        attempt: int = 1,
        state: str = "success",
        started: float = 0.1,
        ended: float | None = 0.85,
    ) -> None:
        self.history.append(
            {
                **_run(job, slot, attempt),
                "state": state,
                "instance": "beat",
                "started": at(slot + started).isoformat(),
                "ended": None if ended is None else at(slot + ended).isoformat(),
                "detail": None,
                "worker": None,
                "message": None,
                "begun": None,
            }
        )

    def went_well(self, job: str, slot: int) -> None:
        self.sent(job, slot)
        self.worked(job, slot)
        self.told(job, slot)

    def forget(self, job: str, slot: int, *, but_history: bool = False) -> None:
        """Take a slot out of the story, to tell it in another way."""
        of = job, at(slot).isoformat()
        self.notes = [n for n in self.notes if (n["job"], n["slot"]) != of]
        if not but_history:
            self.history = [a for a in self.history if (a["job"], a["slot"]) != of]

    def judged(self) -> Judged:
        places = [self.beat, *self.workers]
        return judge(TrackedAftermath(places, self.faults, self.notes, self.history, at(UNTIL)))

    def _note(self, what: str, by: str, seconds: float, **said: Any) -> None:
        self.notes.append({"what": what, "by": by, "at": seconds, **said})


def _run(job: str, slot: int, attempt: int) -> dict[str, Any]:
    name = f"{job} {slot} {attempt}"
    fence = to_millis(at(slot + 0.05 + 5 * (attempt - 1)))
    moment = at(slot).isoformat()
    return {"job": job, "slot": moment, "attempt": attempt, "fence": fence, "message": name}


@pytest.fixture
def story() -> Story:
    """A story in which everything goes well."""
    made = Story()
    for job, every in EVERY.items():
        for slot in range(every, UNTIL - 3, every):
            made.went_well(job, slot)
    return made


def test_a_story_in_which_all_went_well_holds_and_demands_every_slot(story: Story) -> None:
    judged = story.judged()

    assert judged.findings == judged.excused == []
    assert judged.demanded == sum(len(range(every, UNTIL - 3, every)) for every in EVERY.values())
    assert judged.begun_in_time > judged.demanded * 0.9


def starts_twice(story: Story) -> None:
    story.worked("retried-allow", 40, by="two", after=0.4)


def starts_what_was_superseded(story: Story) -> None:
    story.sent("retried-allow", 40, 2, after=0.2)
    story.worked("retried-allow", 40, 2, after=1)
    story.told("retried-allow", 40, 2, ended=1.55)
    story.worked("retried-allow", 40, retry=1, after=3)


def works_beside_another(story: Story) -> None:
    story.forget("short-skip", 40)
    story.sent("short-skip", 40)
    story.worked("short-skip", 40, lasts=2.5)
    story.told("short-skip", 40, ended=2.9)


def leaves_a_slot_out(story: Story) -> None:
    story.forget("short-skip", 40)


def gives_a_lower_fence(story: Story) -> None:
    for note in story.notes:
        if note["job"] == "short-skip" and note["slot"] == at(40).isoformat():
            note["fence"] = to_millis(at(37))
    for attempt in story.history:
        if attempt["job"] == "short-skip" and attempt["slot"] == at(40).isoformat():
            attempt["fence"] = to_millis(at(37))


def gives_one_fence_twice(story: Story) -> None:
    for told in (*story.notes, *story.history):
        if told["job"] == "once-allow" and told["slot"] == at(40).isoformat():
            told["fence"] = _run("once-allow", 35, 1)["fence"]


def loses_an_end(story: Story) -> None:
    story.forget("once-allow", 40)
    story.sent("once-allow", 40)
    story.worked("once-allow", 40)
    story.told("once-allow", 40, state="lost", ended=3.3)


def records_an_end_late(story: Story) -> None:
    story.forget("once-allow", 40)
    story.sent("once-allow", 40)
    story.worked("once-allow", 40)
    story.told("once-allow", 40, ended=4.3)


def ends_what_never_ran(story: Story) -> None:
    story.forget("once-allow", 40, but_history=True)
    story.sent("once-allow", 40)


def lets_a_message_expire(story: Story) -> None:
    story.forget("once-allow", 40)
    story.sent("once-allow", 40)
    story.told("once-allow", 40, state="expired", ended=12)


def never_begins_what_it_received(story: Story) -> None:
    lets_a_message_expire(story)
    story.worked("once-allow", 40)
    story.notes = [
        note
        for note in story.notes
        if note["message"] != "once-allow 40 1" or note["what"] in ("sent", "received")
    ]


def forgets_a_retry(story: Story) -> None:
    story.forget("retried-allow", 40)
    story.sent("retried-allow", 40)
    story.worked("retried-allow", 40, outcome="retried")
    story.told("retried-allow", 40, state="expired", ended=10)


def leaves_a_run_unfinished(story: Story) -> None:
    story.forget("once-allow", 40)
    story.sent("once-allow", 40)
    story.worked("once-allow", 40)
    story.told("once-allow", 40, state="running", ended=None)


def takes_nothing_over(story: Story) -> None:
    work_cut_short_by_a_kill(story)
    story.told("late-ack-allow", 40, state="running", ended=None)


@pytest.mark.parametrize(
    ("plant", "promise"),
    [
        (starts_twice, "G12: started twice"),
        (starts_what_was_superseded, "G4: superseded"),
        (works_beside_another, "G3: beside"),
        (leaves_a_slot_out, "missed"),
        (gives_a_lower_fence, "G5: the fence went back"),
        (gives_one_fence_twice, "G5: one fence twice"),
        (loses_an_end, "end lost"),
        (records_an_end_late, "H1: recorded late"),
        (ends_what_never_ran, "H1"),
        (lets_a_message_expire, "lost"),
        (never_begins_what_it_received, "never begun"),
        (forgets_a_retry, "retry never begun"),
        (leaves_a_run_unfinished, "L4"),
        (takes_nothing_over, "G6: not taken over"),
    ],
)
def test_what_is_planted_is_found(
    plant: Callable[[Story], None], promise: str, story: Story
) -> None:
    plant(story)

    assert any(found.startswith(promise) for found in story.judged().findings)


def work_cut_short_by_a_kill(story: Story) -> None:
    story.forget("late-ack-allow", 40)
    story.sent("late-ack-allow", 40)
    story.worked("late-ack-allow", 40, lasts=None, by="two")
    # nothing else was with it
    story.workers[1].starts[0].end = at(41)
    story.workers[1].starts[0].killed = True


def test_the_run_of_a_killed_worker_is_timed_until_it_is_sent_again(story: Story) -> None:
    work_cut_short_by_a_kill(story)
    story.told("late-ack-allow", 40, state="lost", ended=4.5)
    story.sent("late-ack-allow", 40, 2, after=5.1)
    story.worked("late-ack-allow", 40, 2, after=5.3)
    story.told("late-ack-allow", 40, 2, started=4.5, ended=5.9)

    judged = story.judged()

    assert judged.findings == []
    assert judged.takeovers == [timedelta(seconds=4.1)]
    assert judged.bound == timedelta(seconds=5.5)


def test_work_beside_that_of_a_worker_whose_lease_had_lapsed_is_excused(story: Story) -> None:
    story.forget("short-skip", 40)
    story.sent("short-skip", 40)
    story.worked("short-skip", 40, lasts=8, by="two")
    story.told("short-skip", 40, state="lost", ended=4.5)
    for slot in (42, 44):
        story.forget("short-skip", slot)
        story.history.append({**story.history[-1], **_run("short-skip", slot, 0)})
        story.history[-1] |= {"state": "skipped", "attempt": 0}
    frozen = Frozen("freeze", story.workers[1], 7, None, ())  # type: ignore[arg-type]  # no store
    frozen.began, frozen.healed = at(40.5), at(47.5)
    story.faults.append(frozen)

    judged = story.judged()

    assert judged.findings == []
    assert any(said.startswith("G3: beside") for said in judged.excused)
