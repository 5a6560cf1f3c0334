"""What must hold of every single answer of a store, whoever asks.

It stands at the store's door, sees questions and answers in the order in which they were
carried out, and knows nothing else: no rule, no record, no clock but the one in the replies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

from anarchon.run import Overlap
from anarchon.store import (
    Begin,
    Claim,
    ClaimAnswer,
    Finish,
    Outcome,
    Release,
    Renewal,
    Reply,
    Waiting,
)


@dataclass(slots=True)
class _Run:
    """What is known of one run from the answers about it.

    ``busy_until`` is the end of its lease, or of its wait in a broker. The rest is of tracked
    runs: until when it may be begun, if nobody has, and which delivery began each retry.
    """

    token: str | None
    busy_until: datetime
    lease: timedelta
    attempt: int
    ended: str | None = None
    start_within: timedelta | None = None
    deadline: datetime | None = None
    holder: str | None = None
    nonce: str | None = None
    begun: dict[int, str] = field(default_factory=dict)
    waits: bool = False


@dataclass(slots=True)
class _Job:
    """``held`` are the runs that are busy, or were when they were looked at last."""

    fence: int = 0
    runs: dict[datetime, _Run] = field(default_factory=dict)
    held: dict[datetime, _Run] = field(default_factory=dict)


@dataclass(slots=True)
class PortWatch:
    """Watches a store's answers; ``broken`` says which promise each wrong one broke."""

    broken: list[str] = field(default_factory=list)
    _jobs: dict[str, _Job] = field(default_factory=dict)

    def copy(self) -> PortWatch:
        """Return a watch that knows what this one knows now."""
        return PortWatch(self.broken, deepcopy(self._jobs))

    def see(self, verb: str, questions: Sequence[object], reply: object) -> None:
        """Take in a call that was carried out, and judge its answers."""
        judges: dict[str, Callable[[Any, Any, datetime], None]] = {
            "claim": self._claimed,
            "renew": self._renewed,
            "begin": self._begun,
            "finish": self._finished,
            "release": self._released,
        }
        judge = judges.get(verb)
        if judge is None:
            return
        told = cast(Reply[Any], reply)
        for question, answer in zip(questions, told.answers, strict=True):
            judge(question, answer, told.time)

    def _claimed(self, asked: Claim, answer: ClaimAnswer, time: datetime) -> None:
        job = self._jobs.setdefault(asked.job, _Job())
        run = job.runs.get(asked.slot)
        if answer.outcome is not Outcome.WON:
            if answer.outcome is Outcome.DONE and run is not None:
                run.ended = run.ended or "as a claim was told"
            return
        assert answer.lease is not None, "a won claim tells its lease"
        until = time + answer.lease
        again = run is not None and run.token == asked.token and run.attempt == answer.attempt
        if run is not None and run.ended is not None:
            self._break(f"G2: {_slot(asked)} had ended ({run.ended}), and was won by {_who(asked)}")
        elif run is not None and not again and run.token and run.busy_until > time:
            self._break(f"G1: {_slot(asked)} was held by {run.token}, and won by {_who(asked)}")
        if not again:
            if answer.fence <= job.fence:
                self._break(f"G5: {_slot(asked)}: fence {answer.fence} after {job.fence}")
            job.fence = max(job.fence, answer.fence)
            if asked.terms.overlap is Overlap.SKIP:
                self._judge_overlap(job, asked, time)
        won = _Run(asked.token, until, answer.lease, answer.attempt)
        won.start_within = asked.terms.start_within if run is None else run.start_within
        if again and run is not None:
            won.deadline = run.deadline
        elif won.start_within is not None:
            first = asked.slot if run is None else time
            waited = run.deadline if run is not None else None
            won.deadline = waited if waited is not None else first + won.start_within
        job.runs[asked.slot] = job.held[asked.slot] = won

    def _judge_overlap(self, job: _Job, asked: Claim, time: datetime) -> None:
        for slot, other in list(job.held.items()):
            if other.ended is not None or other.busy_until <= time:
                del job.held[slot]
            elif slot != asked.slot:
                self._break(f"G3: {_slot(asked)} was won while the run of {slot} was busy")

    def _renewed(self, asked: Renewal, answer: bool, time: datetime) -> None:
        run = self._run(asked)
        if asked.waiting is not None:
            self._marked(asked, asked.waiting, answer, time)
            return
        if not answer:
            if run is not None and run.token == asked.token and run.holder == asked.holder:
                # what lapsed once stays so, also if the store's clock is set back
                run.busy_until = run.busy_until if run.waits else min(run.busy_until, time)
            return
        mine = run is not None and run.token == asked.token and run.holder == asked.holder
        if run is None or not mine or run.ended is not None or run.waits:
            self._break(f"G4: {_slot(asked)}: a renewal of {asked.token} was granted to no holder")
            return
        run.busy_until = time + run.lease

    def _marked(self, asked: Renewal, waiting: Waiting, answer: bool, time: datetime) -> None:
        run = self._run(asked)
        if not answer:
            return
        mine = run is not None and run.token == asked.token and run.nonce == waiting.nonce
        if run is None or not mine or run.ended is not None or run.start_within is None:
            self._break(f"G4: {_slot(asked)}: marked by {asked.token}, whose it is not")
            return
        if waiting.nonce is not None:
            run.deadline = time + waiting.delay + run.start_within
            run.nonce = run.holder = None
        assert run.deadline is not None, "nobody has begun it"
        run.busy_until, run.waits = run.deadline, True

    def _begun(self, asked: Begin, answer: bool, time: datetime) -> None:
        run = self._run(asked)
        if not answer:
            return
        if run is None or run.token != asked.token or run.ended is not None:
            self._break(f"G4: {_slot(asked)}: begun by {asked.token}, whose it is not")
            return
        known = run.begun.setdefault(asked.retry, asked.nonce)
        if known != asked.nonce:
            self._break(f"G12: {_slot(asked)}: retry {asked.retry} was begun twice")
        elif asked.retry < max(run.begun):
            self._break(f"G12: {_slot(asked)}: retry {asked.retry} was begun after a later one")
        run.nonce, run.holder = asked.nonce, asked.holder
        run.busy_until, run.deadline, run.waits = time + run.lease, None, False

    def _finished(self, asked: Finish, answer: bool, time: datetime) -> None:
        run = self._run(asked)
        if not answer:
            return
        if run is None or run.token != asked.token or run.nonce != asked.nonce:
            self._break(f"G4: {_slot(asked)}: {asked.token} ended the run, whose it is not")
            return
        run.ended = run.ended or asked.state.value

    def _released(self, asked: Release, answer: bool, time: datetime) -> None:
        run = self._run(asked)
        if run is not None and answer and run.token == asked.token:
            run.token = None
            run.busy_until = time

    def _run(self, asked: Renewal | Begin | Finish | Release) -> _Run | None:
        job = self._jobs.get(asked.job)
        return job.runs.get(asked.slot) if job is not None else None

    def _break(self, what: str) -> None:
        self.broken.append(what)


def _slot(asked: Claim | Renewal | Begin | Finish | Release) -> str:
    return f"{asked.job}@{asked.slot.isoformat()}"


def _who(asked: Claim) -> str:
    return f"{asked.token} of {asked.instance} ({asked.mode})"
