"""Whether one body may follow another: DOUBLED, OVERLAP and FENCE."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import groupby

from anarchon.clock import rfc3339
from anarchon.run import Overlap
from anarchon.testing.docket import Docket, told
from anarchon.testing.evidence import Body
from anarchon.testing.harms import BACK, ROUNDING, Cause, Harm
from anarchon.testing.verdict import Finding, Kind

Judged = Iterator[tuple[Kind, datetime, str, str | None]]


def judge_attempts(docket: Docket) -> tuple[list[Finding], list[Finding]]:
    """Return the findings, and what is excused."""
    findings: list[Finding] = []
    excused: list[Finding] = []
    for judge in (
        _doubled,
        _overlapping_in_slot,
        _overlapping_in_job,
        _fences_of_slots,
        _fences,
    ):
        for kind, slot, detail, excuse in judge(docket):
            if excuse is None:
                findings.append(Finding(kind, docket.name, slot, detail))
            else:
                excused.append(Finding(kind, docket.name, slot, f"{detail}; {excuse}"))
    return findings, excused


def _doubled(docket: Docket) -> Judged:
    for slot, bodies in docket.by_slot.items():
        spent: set[Harm] = set()
        lapsed, highest = 0, 0
        for before, body in zip([None, *bodies[:-1]], bodies, strict=True):
            if before is not None:
                yield from _follows(docket, before, body, spent)
                # an attempt that is not the next was judged: counting begins anew with it
                anew = body.attempt <= before.attempt
                lapsed = 0 if anew else lapsed + _died(docket, before)
            if body.attempt > highest + 1:
                yield from _after_missing(docket, body, highest)
            if lapsed >= docket.most_attempts:
                detail = f"{lapsed} attempts of {docket.most_attempts} had lapsed: {told(body)}"
                yield Kind.DOUBLED, slot, detail, _forgotten(docket, bodies[0], body, spent)
            highest = max(highest, body.attempt)


def _follows(docket: Docket, before: Body, body: Body, spent: set[Harm]) -> Judged:
    """Judge a body that is not the first of its slot."""
    detail = f"{told(before)}; then {told(body)}"
    harms = docket.harming(before, body.started)
    if body.attempt <= before.attempt:
        excuse = _repeated(docket, before, body, harms) or _late(docket, before, body)
        yield Kind.DOUBLED, body.slot, detail, excuse or _forgotten(docket, before, body, spent)
        return
    # what a store has lost excuses one body only: not one that another harm explains
    others = (harm for harm in harms if harm.cause is not Cause.FORGOT)
    legal = next((harm for harm in others if docket.explains(harm, before, body)), None)
    if legal is None:
        forgotten = _forgotten(docket, before, body, spent)
        yield Kind.DOUBLED, body.slot, detail, forgotten
    elif docket.publishes or (before.ended is not None and not before.failed):
        # it was done, and only its end was not recorded
        yield Kind.DOUBLED, body.slot, detail, str(legal)


def _repeated(docket: Docket, before: Body, body: Body, harms: Sequence[Harm]) -> str | None:
    """Excuse a message that was sent again under its token, as its confirmation was lost."""
    if not docket.publishes or (before.attempt, before.fence, before.instance) != (
        body.attempt,
        body.fence,
        body.instance,
    ):
        return None
    return next(map(str, harms), None)


def _late(docket: Docket, before: Body, body: Body) -> str | None:
    """Excuse a body whose process was frozen right before it, until its run had been taken over."""
    if body.attempt >= before.attempt:
        return None
    frozen = (h for h in docket.harming(body, before.started) if h.cause is Cause.FROZEN)
    return next((str(harm) for harm in frozen if docket.explains(harm, body, before)), None)


def _forgotten(docket: Docket, before: Body, body: Body, spent: set[Harm]) -> str | None:
    """Excuse one body of a slot that was open when the store lost what it had acknowledged."""
    harms = (h for h in docket.harming(before, body.started) if h.cause is Cause.FORGOT)
    # the one that is over first: the others may excuse a body that comes later
    harm = min(set(harms) - spent, key=lambda harm: harm.end, default=None)
    if harm is None:
        return None
    spent.add(harm)
    return str(harm)


def _died(docket: Docket, body: Body) -> bool:
    declared = docket.life_of(body)
    if declared is None or body.ended is not None:
        return False
    life = declared[0]
    return life.killed and life.end is not None and life.end > body.started


def _after_missing(docket: Docket, body: Body, highest: int) -> Judged:
    if docket.touching(body.slot - docket.clock_off, body.started):
        return  # whoever claimed it was harmed before its work began
    after = f"attempt {highest}" if highest else "no attempt"
    yield Kind.DOUBLED, body.slot, f"after {after} came {told(body)}, and nobody was harmed", None


def _overlapping_in_slot(docket: Docket) -> Judged:
    for bodies in docket.by_slot.values():
        if len(bodies) > 1:
            yield from _overlapping(docket, bodies, "the slot", lambda _: True)


def _overlapping_in_job(docket: Docket) -> Judged:
    yield from _overlapping(docket, docket.bodies, "the job", lambda body: _skips(docket, body))


def _overlapping(
    docket: Docket, bodies: Sequence[Body], whose: str, is_refused: Callable[[Body], bool]
) -> Judged:
    running: list[Body] = []
    for body in bodies:
        if running and is_refused(body):
            left: list[Body] = []
            for other in running:
                if docket.over(other) <= body.started:
                    continue
                if whose == "the job" and other.slot == body.slot:
                    left.append(other)
                    continue
                # each is told of once: what holds of it now holds of all that follow
                pair = f"{rfc3339(other.slot)} {told(other)}; {told(body)}"
                excuse = _zombie(docket, other, body) or _late(docket, other, body)
                yield Kind.OVERLAP, body.slot, f"two bodies of {whose}: {pair}", excuse
            running = left
        running.append(body)


def _skips(docket: Docket, body: Body) -> bool:
    declared = docket.life_of(body)
    if body.attempt > 1 or declared is None:
        return docket.skips
    return declared[1].overlap is Overlap.SKIP


def _zombie(docket: Docket, body: Body, taker: Body) -> str | None:
    """Return why a body that goes on may have lost its run to another."""
    at = taker.started
    if docket.timeout is not None and at >= body.started + docket.timeout - ROUNDING:
        return "the first had outlived its timeout"
    for harm in docket.harming(body, at):
        if harm.cause is Cause.STOPPED:
            # abandoned, as the last act of its process
            if body.ended is None or body.ended <= at + docket.patience:
                return str(harm)
        elif docket.explains(harm, body, taker):
            return str(harm)
    return None


def _fences_of_slots(docket: Docket) -> Judged:
    seen: dict[int, Body] = {}
    for bodies in docket.by_slot.values():
        ordered = sorted(bodies, key=lambda body: body.attempt)
        highest = ordered[0]
        for _, alike in groupby(ordered, key=lambda body: body.attempt):
            together = list(alike)
            for body in together:
                if highest.attempt < body.attempt and body.fence < highest.fence:
                    detail = f"a later attempt has the lower fence: {told(highest)}; {told(body)}"
                    excuse = _behind(docket, highest, body) or _numbered_anew(docket, highest, body)
                    yield Kind.FENCE, body.slot, detail, excuse
            highest = max(highest, *together, key=lambda body: body.fence)
    for body in docket.bodies:
        other = seen.setdefault(body.fence, body)
        same = (other.slot, other.attempt, other.instance)
        if other is body or same == (body.slot, body.attempt, body.instance):
            continue
        detail = f"one fence twice: {rfc3339(other.slot)} {told(other)}; {told(body)}"
        yield Kind.FENCE, body.slot, detail, _behind(docket, other, body)


def _numbered_anew(docket: Docket, lower: Body, higher: Body) -> str | None:
    """Excuse a first attempt after a second one: the store had lost the run in between."""
    if lower.started < higher.started:
        return None
    span = docket.harms.of_store.touching(higher.started - docket.patience, lower.started)
    return next((str(harm.what) for harm in span if harm.what.cause is Cause.FORGOT), None)


def _fences(docket: Docket) -> Judged:
    """Judge what started after another body of the job that was claimed before it."""
    highest: Body | None = None
    waiting: list[tuple[datetime, int, Body]] = []
    for number, body in enumerate(docket.bodies):
        while waiting and waiting[0][0] <= body.started:
            past = heapq.heappop(waiting)[2]
            if highest is None or past.fence > highest.fence:
                highest = past
        if highest is not None and body.fence < highest.fence and not _told(highest, body):
            detail = f"the fence went back: {rfc3339(highest.slot)} {told(highest)}; {told(body)}"
            excuse = _behind(docket, highest, body) or _slow(docket, highest, body)
            yield Kind.FENCE, body.slot, detail, excuse
        heapq.heappush(waiting, (_before_others(docket, body), number, body))


def _told(before: Body, body: Body) -> bool:
    return before.slot == body.slot and before.attempt < body.attempt


def _before_others(docket: Docket, body: Body) -> datetime:
    """Return from when on whatever starts was surely claimed later than this body."""
    claimed = body.started + docket.patience
    # under skip nothing else is claimed while somebody who may still start holds the lease
    return min(claimed, docket.over(body)) if docket.skips else claimed


def _slow(docket: Docket, before: Body, body: Body) -> str | None:
    """Excuse a start that a harm may have put off for longer than patience after its claim."""
    if docket.skips and docket.over(before) <= body.started:
        return None
    # whose claim was answered to nobody hears of it when it is back
    since = before.started - docket.patience - BACK
    harms = docket.harms.touching(body.instance, since, body.started)
    if body.slot - docket.clock_off > before.started:
        # only by a wrong clock of the store was it claimed by then
        harms = (harm for harm in harms if harm.cause is Cause.CLOCK)
    return next(map(str, harms), None)


def _behind(docket: Docket, before: Body, body: Body) -> str | None:
    """Excuse a store that lost its data, and came back with a clock that was behind."""
    span = docket.harms.of_store.touching(before.started - docket.patience, body.started)
    harms = {harm.what.cause: harm.what for harm in span}
    if Cause.FORGOT in harms and Cause.CLOCK in harms:
        return f"{harms[Cause.FORGOT]}, {harms[Cause.CLOCK]}"
    return None
