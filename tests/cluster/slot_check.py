"""From outside: what the tasks wrote down, against what the schedule demands.

Slots that some instance could have started, being up all the while that a slot may wait, must
be there. Nothing may be there twice, unless the process that published it first was killed
or frozen at that moment: then the second message says attempt 2 of the same slot.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from anarchon.schedules import Schedule


@dataclass
class Verdict:
    """What was found; a healthy cluster leaves all but ``excused`` empty."""

    missed: list[str] = field(default_factory=list)
    phantom: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    excused: list[str] = field(default_factory=list)
    demanded: int = 0


def check(
    schedules: Mapping[str, Schedule],
    records: Sequence[Mapping[str, object]],
    ups: Iterable[tuple[float, float]],
    first_publishers_harmed: Mapping[tuple[str, str], bool],
    patience: float,
) -> Verdict:
    """Compare records with the slots of the times at which somebody was up.

    ``first_publishers_harmed`` says for a (job, slot) whether the instance of its first attempt
    was killed or frozen while it held the run; ``patience`` is for how long after its slot an
    instance may take to claim it.
    """
    verdict = Verdict()
    spans = joined(ups)
    by_slot: dict[tuple[str, str], list[Mapping[str, object]]] = defaultdict(list)
    for record in records:
        by_slot[str(record["job"]), str(record["slot"])].append(record)
    for job, schedule in schedules.items():
        for start, end in spans:
            for slot in slots_between(schedule, start, end - patience):
                verdict.demanded += 1
                if (job, slot) not in by_slot:
                    verdict.missed.append(f"{job}@{slot}")
    for (job, slot), ran in by_slot.items():
        moment = datetime.fromisoformat(slot)
        if schedules[job].latest_at(moment) != moment:
            verdict.phantom.append(f"{job}@{slot}")
        if len(ran) == 1:
            continue
        attempts = sorted(int(str(record["attempt"])) for record in ran)
        told = f"{job}@{slot} attempts {attempts}"
        in_order = attempts == list(range(1, len(ran) + 1))
        excused = in_order and first_publishers_harmed.get((job, slot), False)
        (verdict.excused if excused else verdict.doubled).append(told)
    return verdict


def joined(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Join spans that overlap: an instance takes over what another one leaves."""
    result: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result


def slots_between(schedule: Schedule, start: float, end: float) -> list[str]:
    """Return the slots after ``start`` up to ``end``, as the records spell them."""
    slots: list[str] = []
    slot = schedule.next_after(datetime.fromtimestamp(start, UTC))
    until = datetime.fromtimestamp(end, UTC)
    while slot is not None and slot <= until:
        slots.append(f"{slot:%Y-%m-%dT%H:%M:%S}.{slot.microsecond // 1000:03d}Z")
        slot = schedule.next_after(slot + timedelta(0))
    return slots
