"""Whether a body may have started where and when it did: PHANTOM, EXTRA and LATE."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from anarchon.clock import rfc3339
from anarchon.job import Job
from anarchon.testing.docket import Docket, told
from anarchon.testing.evidence import Body, Life
from anarchon.testing.harms import BACK, Cause, Harm
from anarchon.testing.verdict import Finding, Kind


def judge_starts(docket: Docket) -> tuple[list[Finding], list[Finding]]:
    """Return the findings, and what is excused."""
    findings: list[Finding] = []
    excused: list[Finding] = []
    for body in docket.bodies:
        for kind, detail, harm in _judge(docket, body):
            text = f"{detail}: {told(body)}"
            if harm is None:
                findings.append(Finding(kind, docket.name, body.slot, text))
            else:
                excused.append(Finding(kind, docket.name, body.slot, f"{text}; {harm}"))
    return findings, excused


Judged = Iterator[tuple[Kind, str, Harm | None]]


def _judge(docket: Docket, body: Body) -> Judged:
    declared = docket.life_of(body)
    if declared is None:
        yield Kind.PHANTOM, _not_there(docket, body), None
        return
    life, job = declared
    # whoever takes over need not know the slot: the store names it
    editions = [docket.edition_of(job)] if body.attempt == 1 else docket.editions
    if not any(edition.has(body.slot) for edition in editions):
        yield Kind.PHANTOM, f"the schedule {job.schedule} has no such slot", None
        return
    if body.started < body.slot - docket.clock_off:
        early = f"{_seconds(body.slot - body.started)} before its slot"
        yield Kind.PHANTOM, early, _clock_wrong(docket, body.started)
    elif body.attempt == 1:
        yield from _judge_first(docket, body, life, job)
    else:
        yield from _judge_later(docket, body, life)


def _not_there(docket: Docket, body: Body) -> str:
    lives = docket.declared_by(body.instance)
    if not lives:
        return "its instance is unknown, or does not declare the job"
    spans = ", ".join(
        f"{rfc3339(life.start)} to {'the end' if life.end is None else rfc3339(life.end)}"
        for life, _ in lives
    )
    return f"its instance lived {spans} only"


def _clock_wrong(docket: Docket, moment: datetime) -> Harm | None:
    around = docket.harms.of_store.touching(moment - docket.patience, moment + docket.patience)
    return next((span.what for span in around if span.what.cause is Cause.CLOCK), None)


def _judge_first(docket: Docket, body: Body, life: Life, job: Job) -> Judged:
    slot, late = body.slot, body.started - body.slot
    wrong = _clock_wrong(docket, body.started)
    seen = docket.edition_of(job).seen_from
    if slot < seen - docket.patience:
        before = f"from before the job was first seen, {rfc3339(seen)}"
        yield Kind.EXTRA, before, wrong
        return
    following = job.schedule.next_after(slot)
    lateness = job.max_late if following is None else min(job.max_late, following - slot)
    if late <= lateness + _slack(docket, body, slot + lateness):
        return
    gap = _gap(docket, body, life)
    if gap is None:
        yield Kind.LATE, f"{_seconds(late)} after its slot, of {_seconds(lateness)}", wrong
    elif late > job.catch_up + _slack(docket, body, slot + job.catch_up):
        aged = f"caught up {_seconds(late)} after its slot, of {_seconds(job.catch_up)}"
        yield Kind.EXTRA, aged, wrong
    elif following is not None:
        yield from _judge_newest(docket, body, life, following, wrong)


def _slack(docket: Docket, body: Body, latest: datetime) -> timedelta:
    """Return how much later than its claim a body may start: longer only while it is harmed."""
    claimed = docket.claimed(body)
    if claimed is not None and claimed < body.started:
        asked = docket.harms.touching(body.instance, claimed - docket.patience, body.started)
        if any(asked):
            # asked again under its token until an answer came through, its lease set anew
            return docket.patience + (body.started - claimed)
    since = body.started - docket.lease - docket.patience
    if any(docket.harms.touching(body.instance, since, body.started)):
        # claimed while the store could be asked, and trusted no longer than its lease
        awake = docket.harms.awake(body.instance, max(body.slot, since), latest)
        if awake:
            return docket.patience + docket.lease
    return docket.patience


def _gap(docket: Docket, body: Body, life: Life) -> str | None:
    """Return why an instance may look for what it missed since a slot."""
    if life.start > body.slot - docket.patience:
        return "it started"
    since = body.slot - docket.patience
    return next(map(str, docket.harms.touching(body.instance, since, body.started)), None)


def _judge_newest(
    docket: Docket, body: Body, life: Life, following: datetime, wrong: Harm | None
) -> Judged:
    """Judge a slot that was caught up: it was the newest when its instance asked the store."""
    wait = docket.edition_of(_job(docket, body)).longest_wait(body.slot) + docket.patience
    if body.started <= following + wait:
        return
    asked_from = max(body.slot, life.start - docket.patience)
    awake = docket.harms.awake(body.instance, asked_from, following + docket.patience)
    slow = docket.harms.touching(body.instance, following - wait - BACK, body.started)
    detail = f"caught up though {rfc3339(following)} was due by then"
    # asked in time, it may have waited for its claim all along; a silent store does what it was
    # asked when it is back, whether or not who asked is awake then
    claimed = docket.claimed(body)
    in_time = claimed is not None and claimed <= following + wait
    yield Kind.EXTRA, detail, next(slow, wrong) if awake or in_time else wrong


def _job(docket: Docket, body: Body) -> Job:
    declared = docket.life_of(body)
    assert declared is not None, "only bodies of known instances are judged"
    return declared[1]


def _judge_later(docket: Docket, body: Body, life: Life) -> Judged:
    """Judge a takeover by an instance that started when a newer slot had come due."""
    if not docket.skips:
        return
    earlier = [other for other in docket.by_slot[body.slot] if other.attempt < body.attempt]
    if not earlier or earlier[-1].attempt != body.attempt - 1:
        return
    harms = docket.touching(earlier[-1].started - docket.patience, life.start)
    deaths = [h for h in harms if h.instance == earlier[-1].instance and h.cause is Cause.KILLED]
    newer = (edition.schedule.next_after(body.slot) for edition in docket.editions)
    came_due = any(other and other < life.start - docket.patience for other in newer)
    if not came_due or not deaths or len(deaths) != len(harms):
        return
    if deaths[0].held_until(docket.lease) < life.start - docket.patience:
        detail = f"older than what was due when its instance started, {rfc3339(life.start)}"
        yield Kind.EXTRA, f"{detail}, and left by {deaths[0]}", None


def _seconds(length: timedelta) -> str:
    return f"{length.total_seconds():.3f} s"
