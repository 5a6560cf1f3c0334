"""Questions answered by the rules, in the stores that run these themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

from anarchon.clock import EPOCH
from anarchon.record import JobRecord, Step
from anarchon.store import Begin, Claim, Finish, Registration, Release, Renewal

Q = TypeVar("Q", Claim, Renewal, Begin, Finish, Release, Registration)
A = TypeVar("A")

#: What a job that has no record looks like to questions that make none.
NO_RECORD = JobRecord(floor=EPOCH)


def answered(
    rule: Callable[[JobRecord, Q, datetime], Step[A]],
    questions: Sequence[Q],
    time: datetime,
    *,
    get: Callable[[Q], JobRecord | None],
    keep: Callable[[str, Step[A]], None],
    make: Callable[[Q, datetime], JobRecord] | None = None,
) -> list[A]:
    """Answer in order, each question on the record that those before it left.

    ``keep`` takes over what a step changes, unless the job has no record and ``make`` makes none.
    """
    answers = []
    for asked in questions:
        record = get(asked)
        if record is None and make is not None:
            record = make(asked, time)
        step = rule(record or NO_RECORD, asked, time)
        if record is not None:
            keep(asked.job, step)
        answers.append(step.answer)
    return answers
