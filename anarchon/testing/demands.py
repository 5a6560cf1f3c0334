"""Which slots somebody had to start, and by when: MISSED and LATE."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from anarchon.clock import rfc3339
from anarchon.testing.busy import Busy
from anarchon.testing.docket import Docket, Edition, told
from anarchon.testing.evidence import Body, Life
from anarchon.testing.harms import BACK, Cause, Harm
from anarchon.testing.spans import Span
from anarchon.testing.verdict import Finding, Kind


@dataclass(frozen=True, slots=True)
class Owed:
    """Until when a slot must have started, and who could have done it from when on.

    ``harms`` may have befallen whoever claimed it first, so that it had more time.
    """

    by: datetime
    able: Span[Life]
    due: datetime
    caught_up: bool
    harms: Sequence[Harm]

    @property
    def why(self) -> str:
        """Say it for whoever reads a finding."""
        instance = self.able.what.instance
        if self.caught_up:
            since = rfc3339(self.able.start)
            why = f"the newest when {instance} was able, from {since} on, due {rfc3339(self.due)}"
        else:
            why = f"{instance} was able all the while to {rfc3339(self.due)}"
        return f"{why}, and later for {_list(self.harms)}" if self.harms else why


class Demands:
    """What is owed for the slots of one job."""

    def __init__(self, docket: Docket) -> None:
        self._docket = docket
        self.owed: dict[datetime, Owed] = {}
        #: Slots that somebody living met, whoever was able; what is not owed may be missing.
        self.met: list[tuple[datetime, datetime]] = []
        for edition in docket.editions:
            self._in_time(edition)
            self._caught_up(edition)

    def _owe(self, edition: Edition, slot: datetime, owed: Owed) -> None:
        by = self._settled(edition, slot, owed.due, owed.harms)
        known = self.owed.get(slot)
        if by is None or by > self._docket.until or (known is not None and known.by <= by):
            return
        self.owed[slot] = replace(owed, by=by)

    def _in_time(self, edition: Edition) -> None:
        docket = self._docket
        for slot in edition.slots():
            due = slot + edition.longest_wait(slot) + docket.patience
            if due > docket.until:
                return
            self.met.append((slot, due))
            able = edition.able.covering(slot - docket.clock_off, due)
            if able is not None:
                befell = docket.befell.touching(slot - docket.clock_off - BACK, due)
                harms = self._meddling(slot, [span.what for span in befell])
                self._owe(edition, slot, Owed(due, able, due, False, harms))

    def _caught_up(self, edition: Edition) -> None:
        docket = self._docket
        for able in edition.able:
            slot = edition.schedule.latest_at(able.start)
            if slot is None or not self._is_newest(edition, able, slot):
                continue
            due = able.start + edition.longest_wait(slot) + docket.patience
            if able.end >= due:
                harms = self._meddling(slot, docket.touching(slot - docket.clock_off - BACK, due))
                self._owe(edition, slot, Owed(due, able, due, True, harms))

    def _is_newest(self, edition: Edition, able: Span[Life], slot: datetime) -> bool:
        """Tell whether an instance that is able again surely has to see to this slot."""
        docket = self._docket
        following = edition.schedule.next_after(slot)
        if following is not None and following <= able.start + docket.patience:
            return False  # it may not have been the newest any more when the store was asked
        return (
            slot > edition.known_from + docket.clock_off
            and able.start - slot < edition.catch_up - docket.clock_off
            and self._is_recovered(edition, able, slot)
        )

    def _is_recovered(self, edition: Edition, span: Span[Life], slot: datetime) -> bool:
        """Tell whether an instance surely looks for what it missed when this span begins.

        It does at its start, and after a gap longer than a lease. After a shorter one it
        starts what is not late yet.
        """
        docket = self._docket
        gap = span.start - BACK - slot - docket.patience
        return (
            span.start == span.what.start
            or edition.max_late >= docket.lease
            or gap > docket.lease + edition.longest_wait(slot)
        )

    def _meddling(self, slot: datetime, harms: Sequence[Harm]) -> list[Harm]:
        """Return the harms that may have befallen whoever had just claimed this slot."""
        return [harm for harm in harms if self._may_meddle(harm, slot)]

    def _may_meddle(self, harm: Harm, slot: datetime) -> bool:
        match harm.cause:
            case Cause.FROZEN:
                # frozen before the slot it has not claimed it, and thawed it does as any other
                return harm.start >= slot - self._docket.clock_off
            case Cause.KILLED | Cause.STOPPED:
                return harm.end >= slot - self._docket.clock_off
            case Cause.CUT:
                return harm.end + BACK >= slot
        end = harm.end + BACK
        lived = any(edition.lived_in(slot, end) for edition in self._docket.editions)
        return end >= slot and lived

    def _settled(
        self, edition: Edition, slot: datetime, due: datetime, harms: Sequence[Harm]
    ) -> datetime | None:
        """Return until when a slot must have started, whoever may have claimed it and failed."""
        if not harms:
            return due
        docket = self._docket
        if not docket.keeps_leases:
            return None
        lapses = sum(self._lapses(harm, slot) for harm in harms)
        if lapses >= docket.max_attempts or any(map(_leaves_nothing_sure, harms)):
            return None
        return self.next_start(
            edition,
            slot,
            lapses_from=min(docket.lapses_from(harm, slot - docket.clock_off) for harm in harms),
            held_until=max(harm.held_until(docket.lease) for harm in harms),
            lapses=lapses,
            known=harms,
        )

    def _lapses(self, harm: Harm, slot: datetime) -> int:
        """Return how many attempts at a slot a harm may have used up, none of them answered."""
        if harm.cause is Cause.STOPPED:
            return 0
        if harm.cause is not Cause.CUT:
            return 1
        # where replies get lost, each look that finds the claim before it lapsed is one more
        return 1 + max(0, (harm.end - max(harm.start, slot)) // self._docket.lease)

    def next_start(
        self,
        edition: Edition,
        slot: datetime,
        *,
        lapses_from: datetime,
        held_until: datetime,
        lapses: int,
        known: Sequence[Harm],
    ) -> datetime | None:
        """Return until when a run must start again whose lease lapses in between these moments.

        ``None`` if it need not: nobody able watches it, it may have no attempt left, or the
        job's next slot may replace it. Whoever takes it over may be harmed as well.
        """
        docket = self._docket
        look = 2 * docket.heartbeat + edition.longest_wait(slot) + docket.patience
        seen = set(known)
        while True:
            by = edition.watched(held_until, held_until + look, look)
            if by is None or by > docket.until or self._may_replace(slot, by):
                return None
            more = set(docket.touching(lapses_from, by)) - seen
            if not more:
                return by
            if any(map(_leaves_nothing_sure, more)):
                return None
            lapses += sum(harm.cause is not Cause.STOPPED for harm in more)
            if lapses >= docket.max_attempts:
                return None
            seen |= more
            held_until = max(held_until, *(harm.held_until(docket.lease) for harm in more))

    def _may_replace(self, slot: datetime, by: datetime) -> bool:
        if not self._docket.skips:
            return False  # where runs may overlap, none ends another
        following = (edition.schedule.next_after(slot) for edition in self._docket.editions)
        return any(other is not None and other <= by for other in following)

    def again(self, slot: datetime, body: Body, harm: Harm) -> datetime | None:
        """Return until when a run must start again that was harmed under way."""
        docket = self._docket
        before = docket.touching(docket.claimed_from(body), harm.start)
        if any(earlier.cause is Cause.FORGOT for earlier in before):
            return None  # the run was lost with its claim, and with its runner who knew of it
        held_until, lapses = harm.held_until(docket.lease), body.attempt
        if harm.cause is Cause.STOPPED:
            assert body.ended is not None, "an interrupted body has ended"
            held_until, lapses = max(harm.start, body.ended), body.attempt - 1
        if lapses >= docket.max_attempts or docket.max_attempts == 1:
            return None
        bounds = (
            self.next_start(
                edition,
                slot,
                lapses_from=min(docket.lapses_from(harm, docket.claimed_from(body)), held_until),
                held_until=held_until,
                lapses=lapses,
                known=[harm],
            )
            for edition in docket.editions
            if edition.has(slot)
        )
        return min((by for by in bounds if by is not None), default=None)


def _leaves_nothing_sure(harm: Harm) -> bool:
    return harm.cause in (Cause.FORGOT, Cause.CLOCK)


def judge_demands(docket: Docket) -> tuple[list[Finding], list[Finding], int, int]:
    """Return the findings, what is excused, how many slots were demanded, and skipped."""
    demands, busy = Demands(docket), Busy(docket)
    findings: list[Finding] = []
    excused: list[Finding] = []
    skipped = 0
    for slot, owed in sorted(demands.owed.items()):
        bodies = docket.by_slot.get(slot)
        if bodies and bodies[0].started <= owed.by:
            continue
        other = busy.other(slot, owed.by)
        if other is not None:
            skipped += 1
            if other.left_by is not None:
                detail = f"not started: {other}"
                excused.append(Finding(Kind.MISSED, docket.name, slot, detail))
        elif bodies:
            detail = f"due by {rfc3339(owed.by)}, as {owed.why}: {told(bodies[0])}"
            findings.append(Finding(Kind.LATE, docket.name, slot, detail))
        else:
            detail = f"nobody started it by {rfc3339(owed.by)}: {owed.why}"
            findings.append(Finding(Kind.MISSED, docket.name, slot, detail))
    excused += _unowed(docket, demands, busy)
    findings += _not_taken_over(docket, demands)
    return findings, excused, len(demands.owed) - skipped, skipped


def _unowed(docket: Docket, demands: Demands, busy: Busy) -> Iterator[Finding]:
    """Yield what was not started, and nobody was able to start, because of some harm."""
    for slot, due in demands.met:
        if slot in demands.owed or slot in docket.by_slot:
            continue
        harms = docket.touching(slot - BACK, due)
        other = busy.other(slot, due)
        if harms and (other is None or other.left_by is not None):
            detail = f"not started: {_list(harms)}"
            yield Finding(Kind.MISSED, docket.name, slot, detail)


def _not_taken_over(docket: Docket, demands: Demands) -> Iterator[Finding]:
    for slot, bodies in docket.by_slot.items():
        for body, following in zip(bodies, [*bodies[1:], None], strict=True):
            for harm in _crashes(docket, body):
                by = demands.again(slot, body, harm)
                # a freeze that was over before somebody had to act may have cost nothing
                if by is None or (harm.cause is Cause.FROZEN and harm.end < by):
                    continue
                if following is not None and following.started <= by:
                    continue
                detail = f"to be taken over by {rfc3339(by)}, as {harm}: {told(body)}"
                if following is None:
                    yield Finding(Kind.MISSED, docket.name, slot, f"{detail}; nobody did")
                else:
                    late = f"{detail}; then {told(following)}"
                    yield Finding(Kind.LATE, docket.name, slot, late)
                break


def _crashes(docket: Docket, body: Body) -> Iterator[Harm]:
    """Yield what surely kept a body from ending its run."""
    until = docket.over(body)
    if docket.timeout is not None:
        # from then on its run has failed, whatever the body does
        until = min(until, body.started + docket.timeout - docket.patience)
    for span in docket.harms.of(body.instance).touching(body.started, until):
        harm = span.what
        if harm.start < body.started:
            continue
        if harm.cause is Cause.STOPPED:
            if body.failed and body.ended is not None and harm.start <= body.ended <= until:
                yield harm
        elif harm.cause in (Cause.KILLED, Cause.FROZEN) and (
            # what ended right then may have been recorded before it was harmed
            body.ended is None or body.ended > harm.start + docket.patience
        ):
            yield harm


def _list(harms: Sequence[Harm]) -> str:
    some = ", ".join(str(harm) for harm in sorted(harms, key=lambda h: h.start)[:3])
    return f"{some} and {len(harms) - 3} more" if len(harms) > 3 else some
