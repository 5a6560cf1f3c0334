"""When another run of a job may have kept a slot from starting, by `overlap="skip"`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from anarchon.clock import rfc3339
from anarchon.testing.docket import Docket, told
from anarchon.testing.evidence import Body
from anarchon.testing.harms import Cause, Harm
from anarchon.testing.spans import NEVER, Span, Spans


@dataclass(frozen=True, slots=True)
class Run:
    """A run that may have held a lease; ``left_by`` is what left it behind."""

    slot: datetime
    body: Body | None
    left_by: Harm | None = None

    def __str__(self) -> str:
        if self.body is None:
            return f"a claim of {rfc3339(self.slot)} without a body may have held: {self.left_by}"
        busy = f"{rfc3339(self.slot)} was busy, {told(self.body)}"
        return busy if self.left_by is None else f"{busy}, its lease left behind: {self.left_by}"


class Busy:
    """The times at which the runs of one job may have been busy.

    From a claim until the end is stored; where the holder was harmed, until what it left
    behind lapses. A claimant that was harmed before its work began leaves no trace but a slot
    without a first attempt: it counts from its harm.
    """

    def __init__(self, docket: Docket) -> None:
        self._docket = docket
        runs = [*self._of_bodies(), *self._of_claims()] if docket.skips else []
        self._runs = Spans(runs)

    def other(self, slot: datetime, until: datetime) -> Run | None:
        """Return a run of another slot that was busy at some moment from this slot on."""
        longest = self._runs.longest_touching(slot, until)
        if longest is None or longest.what.slot != slot:
            return longest.what if longest is not None else None
        others = (span.what for span in self._runs.touching(slot, until))
        return next((run for run in others if run.slot != slot), None)

    def _of_bodies(self) -> Iterator[Span[Run]]:
        docket = self._docket
        for body in docket.bodies:
            end, left_by = self._end(body)
            start = docket.claimed_from(body)
            yield Span(start, end, Run(body.slot, body, left_by))

    def _end(self, body: Body) -> tuple[datetime, Harm | None]:
        docket = self._docket
        end, left_by = docket.over(body), None
        if docket.timeout is not None:
            # no renewal any more from a heartbeat after the timeout on
            limit = docket.timeout + docket.heartbeat + docket.lease
            end = min(end, body.started + limit)
        harms = docket.harming(body, end)
        for harm in harms:
            lapses = harm.start + docket.lease
            lapsed = harm.cause is Cause.FROZEN and harm.end >= lapses
            if lapsed and body.ended is None and harm.start >= body.started:
                end = min(end, lapses)
        for harm in harms:
            held = harm.busy_until(docket.lease)
            if held > end:
                end, left_by = held, harm
        return min(end, NEVER - docket.patience) + docket.patience, left_by

    def _of_claims(self) -> Iterator[Span[Run]]:
        docket = self._docket
        for span in (*docket.befell, *docket.harms.of_store):
            harm, slots = span.what, self._slots(span.start + docket.clock_off, span.end)
            end = harm.held_until(docket.lease)
            if harm.cause is Cause.AWAY:
                # it was claimed right before, or waited for the store to come back
                slots = self._slots(span.end, span.end)
                for slot in self._slots(span.start + docket.clock_off, span.start):
                    if self._is_open(slot, harm):
                        yield self._claim(slot, harm, harm.busy_until(docket.lease))
            # two are enough: of whichever slot is asked for, one of them is another
            for slot in islice((slot for slot in slots if self._is_open(slot, harm)), 2):
                yield self._claim(slot, harm, end)

    def _claim(self, slot: datetime, harm: Harm, end: datetime) -> Span[Run]:
        start = max(slot, harm.start) - self._docket.clock_off
        return Span(start, max(start, end + self._docket.patience), Run(slot, None, harm))

    def _slots(self, first: datetime, until: datetime) -> Iterator[datetime]:
        """Yield the newest slot at a moment, and those that follow in a span."""
        for edition in self._docket.editions:
            slot = edition.schedule.latest_at(first)
            if slot is not None:
                yield slot
                slot = edition.schedule.next_after(slot)
            while slot is not None and slot <= until:
                yield slot
                slot = edition.schedule.next_after(slot)

    def _is_open(self, slot: datetime, harm: Harm) -> bool:
        bodies = self._docket.by_slot.get(slot, ())
        if {body.attempt for body in bodies} != set(range(1, len(bodies) + 1)):
            return True
        begun = [body for body in bodies if body.started <= harm.end]
        if not begun or begun[-1].ended is None:
            return True
        return bool(self._docket.harming(begun[-1], harm.end))
