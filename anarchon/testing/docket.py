"""All evidence that concerns one job: its editions, who could run it when, and its bodies.

An *edition* is one schedule and task, as the fingerprint tells them apart; instances may give
different options to one edition, and then whatever is kindest to the fleet counts.

**How early a run may be another's** is said without patience, which is only for what comes late.
The store grants a claim, or a renewal, for a whole lease. So until a lease after the last of
these nobody else can have the run; or until a margin less, if the body had ended by then and its
instance was not killed: a runner gives back what it trusts no longer. The last of these is

- the claim, or a later one. A fence is the store's time of its claim, in milliseconds, and two
  of them are compared by one clock: exactly, but for ``ROUNDING``. A fence that cannot be that time
  (from before the slot, or after the start) tells nothing; then the claim may have been a
  patience before the start, as a start may be that late.
- not older than a heartbeat and a half when the harm began: until then it was renewed each
  heartbeat. The half (a margin if that is longer, a patience if that is shorter) is for a renewal
  under way, and for a busy machine: who is starved for longer has a trouble of its own, a freeze.

After a stop a release may come at once, and what the store forgot, or times by a wrong clock,
is free from the beginning of that harm. None of it holds if the harm was over, and the harms
that followed, while there was time for a renewal: here patience counts, for it may come late.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from anarchon.action import Kind
from anarchon.clock import EPOCH, rfc3339, to_millis
from anarchon.job import Job
from anarchon.keeper import margin
from anarchon.run import Overlap
from anarchon.testing.evidence import Body, Evidence, Life
from anarchon.testing.harms import BACK, ROUNDING, Cause, Harm, Harms
from anarchon.testing.spans import NEVER, Pieces, Span, Spans, joined

#: For how long a body that was told to stop may go on: the default grace, and the last words.
_GRACE = timedelta(seconds=30)
#: What may hold a question up, or its answer.
_OF_THE_WAY = (Cause.CUT, Cause.AWAY)


def told(body: Body) -> str:
    """Write a body for whoever reads a finding."""
    if body.ended is None:
        end = "never ended"
    else:
        end = f"{'failed' if body.failed else 'ended'} {rfc3339(body.ended)}"
    return (
        f"attempt {body.attempt} fence {body.fence} on {body.instance}"
        f" started {rfc3339(body.started)} {end}"
    )


class Edition:
    """One schedule of a job, and the instances that declared it."""

    def __init__(self, declared: Sequence[tuple[Life, Job]], harms: Harms) -> None:
        jobs = [job for _, job in declared]
        self.schedule = jobs[0].schedule
        self.jitter = max(job.jitter for job in jobs)
        self.max_late = min(job.max_late for job in jobs)
        self.catch_up = min(job.catch_up for job in jobs)
        lives = [life for life, _ in declared]
        self.able = Spans(
            Span(start, end, life) for life in lives for start, end in harms.able(life)
        )
        #: When somebody lived that declared it, able or not.
        self.lived: Pieces = joined(
            (life.start, harms.until if life.end is None else life.end) for life in lives
        )
        forgotten = joined(
            (span.start, span.end) for span in harms.of_store if span.what.cause is Cause.FORGOT
        )
        registered = (s.start for s in self.able if not _inside(s.start, forgotten))
        #: From when on the store surely knows it, and when at the earliest it may have.
        self.known_from = min(registered, default=NEVER)
        self.seen_from = min(
            (
                piece[0]
                for life in lives
                for piece in harms.awake("", life.start, life.end or harms.until)[:1]
            ),
            default=NEVER,
        )

    def has(self, slot: datetime) -> bool:
        """Tell whether a moment is one of its slots."""
        return self.schedule.latest_at(slot) == slot

    def longest_wait(self, slot: datetime) -> timedelta:
        """Return for how long a claim may be put off: never more than a tenth of the step."""
        following = self.schedule.next_after(slot)
        return self.jitter if following is None else min(self.jitter, (following - slot) / 10)

    def lived_in(self, start: datetime, end: datetime) -> bool:
        """Tell whether somebody that declared it lived at some moment of a span."""
        at = bisect_right(self.lived, (end, NEVER)) - 1
        return at >= 0 and self.lived[at][1] >= start

    def watched(self, since: datetime, by: datetime, look: timedelta) -> datetime | None:
        """Return until when somebody looks at a run that is free from ``since`` on.

        That is ``by`` for whoever was able before; who is able later needs a look of its own.
        """
        if self.able.covering(since, by) is not None:
            return by
        for span in self.able.starting_from(since):
            own = max(by, span.start + look)
            if span.end >= own:
                return own
        return None

    def slots(self) -> Iterator[datetime]:
        """Yield the slots of the times at which somebody lived."""
        for start, end in self.lived:
            slot = self.schedule.next_after(start)
            while slot is not None and slot <= end:
                yield slot
                slot = self.schedule.next_after(slot)


class Docket:
    """One job's part of the evidence."""

    def __init__(self, name: str, evidence: Evidence, harms: Harms, patience: timedelta) -> None:
        self.name = name
        self.harms = harms
        self.patience = patience
        self.until = evidence.until
        self.keeps_leases = evidence.keeps_leases
        self._declared: dict[str, list[tuple[Life, Job]]] = defaultdict(list)
        by_edition: dict[str, list[tuple[Life, Job]]] = defaultdict(list)
        jobs: list[Job] = []
        fingerprints: dict[int, str] = {}
        for life in evidence.lives:
            for job in life.jobs:
                if job.name == name:
                    jobs.append(job)
                    self._declared[life.instance].append((life, job))
                    if id(job) not in fingerprints:
                        fingerprints[id(job)] = job.fingerprint(evidence.until)
                    by_edition[fingerprints[id(job)]].append((life, job))
        editions = {key: Edition(declared, harms) for key, declared in by_edition.items()}
        self.editions = tuple(editions.values())
        # a fingerprint takes long, where there are time zones: once for each object is enough
        self._edition_of = {job: editions[key] for job, key in fingerprints.items()}
        self.lease = max((job.lease for job in jobs), default=timedelta(0))
        self.shortest_lease = min((job.lease for job in jobs), default=timedelta(0))
        self.heartbeat = max((job.heartbeat for job in jobs), default=timedelta(0))
        self.max_attempts = min((job.max_attempts for job in jobs), default=1)
        self.most_attempts = max((job.max_attempts for job in jobs), default=1)
        self.publishes = any(job.kind is Kind.PUBLISH for job in jobs)
        self.skips = all(job.overlap is Overlap.SKIP for job in jobs)
        limits = [job.timeout for job in jobs if job.timeout is not None]
        self.timeout = min(limits, default=None)
        #: By how much the store's clock may be off while everything holds.
        self.clock_off = min(patience, margin(self.shortest_lease))
        self.bodies = sorted(
            (body for body in evidence.bodies if body.job == name), key=lambda b: b.started
        )
        self.by_slot: dict[datetime, list[Body]] = defaultdict(list)
        for body in self.bodies:
            self.by_slot[body.slot].append(body)
        #: How much later than due a renewal may be granted before anybody calls that a trouble.
        self.renewed_late = min(patience, max(self.heartbeat / 2, margin(self.shortest_lease)))
        #: What befell instances that declare the job.
        self.befell = Spans(span for instance in self._declared for span in harms.of(instance))

    def declared_by(self, instance: str) -> Sequence[tuple[Life, Job]]:
        """Return the lives of an instance in which it declared the job."""
        return self._declared.get(instance, ())

    def edition_of(self, job: Job) -> Edition:
        """Return the edition that a declared job belongs to."""
        return self._edition_of[id(job)]

    def life_of(self, body: Body) -> tuple[Life, Job] | None:
        """Return the life in which a body started, and the job as it was declared there."""
        return next(
            (
                (life, job)
                for life, job in self.declared_by(body.instance)
                if life.start - self.patience <= body.started <= self._heard_end(life)
            ),
            None,
        )

    def _heard_end(self, life: Life) -> datetime:
        """Return when an instance surely knew that it has ended; a frozen one hears it late."""
        if life.end is None:
            return NEVER
        heard = life.end + self.patience
        if life.killed:
            return heard
        while True:
            harms = self.harms.touching(life.instance, life.end, heard)
            frozen = [harm.end + self.patience for harm in harms if harm.cause is Cause.FROZEN]
            if max(frozen, default=heard) <= heard:
                return heard
            heard = max(frozen)

    def touching(self, start: datetime, end: datetime) -> list[Harm]:
        """Return what befell anybody who declares the job, or the store."""
        return [
            span.what
            for spans in (self.befell, self.harms.of_store)
            for span in spans.touching(start, end)
        ]

    def over(self, body: Body) -> datetime:
        """Return when a body surely did nothing any more."""
        if body.ended is not None:
            return body.ended
        declared = self.life_of(body)
        if declared is None or declared[0].end is None:
            return NEVER
        return declared[0].end + (timedelta(0) if declared[0].killed else _GRACE)

    def claimed(self, body: Body) -> datetime | None:
        """Return the store's time of the claim a body ran by, if its fence can be that."""
        first = to_millis(body.slot - ROUNDING)
        if first <= body.fence <= to_millis(body.started + self.clock_off):
            return EPOCH + timedelta(milliseconds=body.fence)
        return None

    def claimed_from(self, body: Body) -> datetime:
        """Return when a body was claimed at the earliest."""
        claimed = self.claimed(body)
        return body.started - self.patience if claimed is None else claimed - self.clock_off

    def claimed_by(self, body: Body) -> datetime:
        """Return when a body was claimed at the latest."""
        claimed = self.claimed(body)
        return body.started if claimed is None else min(body.started, claimed + self.clock_off)

    def harming(self, body: Body, until: datetime) -> list[Harm]:
        """Return what may have kept a body from its lease, or from having its end recorded.

        That is asked for until it is answered: harms may follow one another before it is.
        """
        since = self.claimed_from(body)
        end = until if body.ended is None else min(until, body.ended + self.patience)
        while True:
            harms = list(self.harms.touching(body.instance, since, end))
            if body.ended is None:
                return harms
            back = [harm.end + BACK for harm in harms if harm.end >= body.ended]
            later = min(until, max(back, default=end))
            if later <= end:
                return harms
            end = later

    def lapses_from(
        self, harm: Harm, claimed_from: datetime, *, given_back: bool = True
    ) -> datetime:
        """Return from when a run that was claimed then, or later, may be another's.

        ``given_back`` is whether its runner may have released what it trusts no longer.
        """
        if harm.at_once:
            return harm.start
        renewed = harm.start - self.heartbeat - self.renewed_late
        return max(renewed, claimed_from) + self._held_for(harm, given_back)

    def _held_for(self, harm: Harm, given_back: bool) -> timedelta:
        if not given_back:
            return self.shortest_lease
        trusted = self.shortest_lease - margin(self.shortest_lease)
        # trust counts from when the claim was sent, which a bad way may have held up
        return trusted - self.shortest_lease / 3 if harm.cause in _OF_THE_WAY else trusted

    def explains(self, harm: Harm, body: Body, taker: Body) -> bool:
        """Tell whether a harm let the run of a body be another's when this one was claimed."""
        match harm.cause:
            case Cause.FORGOT | Cause.CLOCK:
                return taker.started >= harm.start  # what it was claimed at is not known then
            case Cause.STOPPED:
                # it ended as its work did, but for work that the stop interrupted
                interrupted = body.failed and (body.ended or NEVER) >= harm.start - ROUNDING
                free = body.ended is None or interrupted
                return free and self.claimed_by(taker) >= harm.start
        given_back = (
            harm.cause is not Cause.KILLED
            and body.ended is not None
            and body.ended <= taker.started
        )
        lapses = self.lapses_from(harm, self.claimed_from(body), given_back=given_back)
        if self.claimed_by(taker) < lapses or not self._in_turn(body, taker, harm, given_back):
            return False
        return harm.cause is Cause.KILLED or self._renewed_by(harm, body) >= lapses

    def _in_turn(self, body: Body, taker: Body, harm: Harm, given_back: bool) -> bool:
        """Tell whether a lease may have passed between two claims, by the store's own time."""
        first, second = self.claimed(body), self.claimed(taker)
        if first is None or second is None:
            return True
        return second - first >= self._held_for(harm, given_back) - ROUNDING

    def _renewed_by(self, harm: Harm, body: Body) -> datetime:
        """Return until when no renewal need succeed that a harm may have kept from it.

        One that failed is tried again soon, and what befalls it on the way keeps it again.
        """
        again = self.heartbeat * 4 / 3 + self.patience
        by = harm.end + again
        while True:
            others = list(self.harms.touching(body.instance, harm.start, by))
            if any(other.cause is Cause.KILLED for other in others):
                return NEVER  # who died on the way back renews nothing
            later = max((other.end for other in others), default=harm.end) + again
            if later <= by:
                return by
            by = later


def _inside(moment: datetime, pieces: Pieces) -> bool:
    at = bisect_right(pieces, (moment, NEVER)) - 1
    return at >= 0 and moment <= pieces[at][1]
