"""A small world of a schedule that names no slots: whoever asks it finds one by the newest.

Instances hear the newest slot, find the next one at a moment of their own, and claim it. Claims
arrive late, twice or not at all; runs end and are pruned at any moment; the store may lose its
record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from anarchon import rules
from anarchon.record import JobRecord, Run, Step
from anarchon.run import Overlap, RunState
from anarchon.store import Claim, ClaimAnswer, Mode, Outcome, Registration, Terms

ZERO, STEP = datetime(2026, 1, 1, tzinfo=UTC), timedelta(seconds=100)
FAR = ZERO + timedelta(days=9)
#: In the place of a decision: here the store lost what it knew.
LOST = (0, 0)

Decision = tuple[int, int]
Rule = Callable[[JobRecord, Claim, datetime], Step[ClaimAnswer]]


class Sent(NamedTuple):
    """A claim on its way, which may arrive so often."""

    slot: int
    after: int
    token: str
    arrivals: int


class Polled(NamedTuple):
    """One state; moments count from 1, and ``decided`` has each slot with what it was found by."""

    time: int
    record: tuple[int, int, tuple[tuple[int, str, RunState], ...]] | None
    heard: tuple[int | None, ...]
    sent: tuple[Sent, ...] = ()
    decided: tuple[Decision, ...] = ()
    claims: int = 0


@dataclass(frozen=True)
class PolledModel:
    """The world's size, and the rule for a claim; ``claims`` is how many are sent."""

    overlap: Overlap = Overlap.SKIP
    instances: int = 2
    moments: int = 3
    claims: int = 3
    loses: bool = False
    claim: Rule = rules.claim

    def start(self) -> Polled:
        return Polled(1, (1, 1, ()), (None,) * self.instances)

    def steps(self, world: Polled) -> Iterator[tuple[str, Polled]]:
        if world.time < self.moments:
            yield "time passes", world._replace(time=world.time + 1)
        if self.loses and world.record is not None and LOST not in world.decided:
            yield (
                "the store loses its record",
                world._replace(record=None, decided=(*world.decided, LOST)),
            )
        yield from self._of_instances(world)
        yield from self._of_claims(world)
        if world.record is not None:
            yield from self._of_runs(world)

    def broken(self, world: Polled) -> str | None:
        for before, decision in zip(world.decided, world.decided[1:], strict=False):
            if LOST not in (before, decision) and decision[1] != before[0]:
                return "a slot was decided that was not found by the newest"
        record = self._record(world) or _registered(world.time)
        ended = {slot: replace(run, state=RunState.LOST) for slot, run in record.runs.items()}
        time = max(_moment(world.time), record.newest) + STEP
        asked = replace(self._claim(0, 0, "next"), slot=time, after=record.newest)
        answer = self.claim(replace(record, runs=ended), asked, time).answer
        return None if answer.outcome is Outcome.WON else "no further slot can be won"

    def _of_instances(self, world: Polled) -> Iterator[tuple[str, Polled]]:
        record = self._record(world) or _registered(world.time)
        for number, heard in enumerate(world.heard):
            newest = _number(record.newest)
            if heard != newest:
                told = _put(world.heard, number, newest)
                yield (
                    f"{number} hears that {newest} is the newest",
                    world._replace(heard=told, record=_kept(record)),
                )
            if heard is not None and heard < world.time and world.claims < self.claims:
                token = f"{number} at {world.time} after {heard}"
                sent = Sent(world.time, heard, token, 2)
                yield (
                    f"{number} finds {world.time} and claims it",
                    world._replace(
                        heard=_put(world.heard, number, None),
                        sent=tuple(sorted({*world.sent, sent})),
                        claims=world.claims + 1,
                    ),
                )

    def _of_claims(self, world: Polled) -> Iterator[tuple[str, Polled]]:
        for sent in world.sent:
            others = tuple(other for other in world.sent if other != sent)
            asked, time = self._claim(sent.slot, sent.after, sent.token), _moment(world.time)
            before = self._record(world) or JobRecord.made_by(asked, time)
            step = self.claim(before, asked, time)
            left = () if sent.arrivals == 1 else (sent._replace(arrivals=1),)
            decided = world.decided
            if asked.slot in step.record.runs and asked.slot not in before.runs:
                decided = (*decided, (sent.slot, sent.after))
            yield (
                f"{sent.token} arrives: {step.answer.outcome}",
                world._replace(
                    record=_kept(step.record), sent=tuple(sorted((*others, *left))), decided=decided
                ),
            )

    def _of_runs(self, world: Polled) -> Iterator[tuple[str, Polled]]:
        record = self._record(world)
        assert record is not None
        for slot, run in record.runs.items():
            if run.state is RunState.RUNNING:
                ended = replace(run, state=RunState.SUCCESS)
                yield (
                    f"{_number(slot)} ends",
                    world._replace(record=_kept(record.having(ended))),
                )
            else:
                pruned = rules.prune(record, slot).record
                yield f"{_number(slot)} is pruned", world._replace(record=_kept(pruned))

    def _record(self, world: Polled) -> JobRecord | None:
        if world.record is None:
            return None
        floor, newest, runs = world.record
        kept = {
            _moment(slot): Run(
                _moment(slot), state, self._terms, 1, 0, token, FAR, "", 1, _moment(slot)
            )
            for slot, token, state in runs
        }
        return JobRecord(_moment(floor), _moment(newest), 1, {}, kept)

    @property
    def _terms(self) -> Terms:
        return Terms(FAR - ZERO, self.overlap, 1, RunState.RUNNING)

    def _claim(self, slot: int, after: int, token: str) -> Claim:
        return Claim(
            *("job", _moment(slot), token, Mode.SCHEDULED, "", self._terms, FAR - ZERO),
            after=_moment(after),
        )


def _registered(time: int) -> JobRecord:
    return JobRecord.made_by(Registration("job", "v1"), _moment(time))


def _kept(record: JobRecord) -> tuple[int, int, tuple[tuple[int, str, RunState], ...]]:
    runs = sorted((_number(run.slot), run.token or "", run.state) for run in record.runs.values())
    return _number(record.floor), _number(record.newest), tuple(runs)


def _put(heard: tuple[int | None, ...], at: int, newest: int | None) -> tuple[int | None, ...]:
    return (*heard[:at], newest, *heard[at + 1 :])


def _moment(number: int) -> datetime:
    return ZERO + number * STEP


def _number(moment: datetime) -> int:
    """Return the moment at or before this one: a floor may lie right below a slot."""
    return (moment - ZERO) // STEP
