"""Deaths, stops and troubles, and what each may do to a lease: keep it, or let it lapse.

A *harm* is whatever may keep a holder from its lease, or a lease from its holder. Troubles of
an instance's own clock are none: by ``docs/guarantees.md`` they change nothing, for the
store's clock decides. A trouble of the store's clock lasts as long as what was written under
the wrong time: whoever sets a clock back by an hour says so until an hour later. A store that
is away does nothing meanwhile, and what waits for it at its end when it is back; one that
does what it is asked, and is not heard, is a cut for everybody.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from anarchon.calling import PATIENCE
from anarchon.clock import rfc3339
from anarchon.testing.evidence import Evidence, Fault, Life, Trouble
from anarchon.testing.spans import Pieces, Span, Spans, joined, without

#: What it takes to be back after a trouble: a call that hangs until its deadline, and a pause.
BACK = timedelta(seconds=PATIENCE + 5.0)
#: By how much two records of one moment may differ that were made by two processes.
ROUNDING = timedelta(milliseconds=50)


class Cause(StrEnum):
    """What happened to whom it happened to."""

    KILLED = "killed"
    STOPPED = "stopped"
    FROZEN = "frozen"
    CUT = "cut"
    AWAY = "away"
    FORGOT = "forgot"
    CLOCK = "clock wrong"


@dataclass(frozen=True, slots=True)
class Harm:
    """A death, a stop, or a trouble; ``instance`` is ``None`` for the store."""

    cause: Cause
    start: datetime
    end: datetime
    instance: str | None = None

    def __str__(self) -> str:
        until = "" if self.end == self.start else f" to {rfc3339(self.end)}"
        return f"{self.instance or 'store'} {self.cause} {rfc3339(self.start)}{until}"

    @property
    def at_once(self) -> bool:
        """Tell whether a run may be another's without waiting for a lease to lapse."""
        return self.cause in (Cause.STOPPED, Cause.FORGOT, Cause.CLOCK)

    def busy_until(self, lease: timedelta) -> datetime:
        """Return until when it may keep a lease, granted before, that nobody works under."""
        if self.cause not in (Cause.FROZEN, Cause.AWAY):
            return self.held_until(lease)
        lapses = self.start + lease
        # over before that, the lease is renewed, and its holder hears of it in its own time
        return max(lapses, self.end + BACK) if self.end < lapses else lapses

    def held_until(self, lease: timedelta) -> datetime:
        """Return the same for any lease, granted before or on the way."""
        match self.cause:
            case Cause.STOPPED:
                return self.start
            case Cause.KILLED:
                return self.start + lease
            case Cause.FROZEN:
                return self.busy_until(lease)
        # a claim may have been stored whose answer nobody heard, and is asked for again
        return self.end + max(BACK, lease)


class Harms:
    """All harms of one test, by whom they befell."""

    def __init__(self, evidence: Evidence) -> None:
        store: list[Harm] = []
        own: dict[str, list[Harm]] = defaultdict(list)
        for trouble in evidence.troubles:
            harm = _harm(trouble)
            if harm is not None:
                (store if harm.instance is None else own[harm.instance]).append(harm)
        self.until = evidence.until
        self.of_store = _spans(store)
        self._troubles_of = {instance: list(harms) for instance, harms in own.items()}
        for life in evidence.lives:
            if life.end is not None:
                cause = Cause.KILLED if life.killed else Cause.STOPPED
                own[life.instance].append(Harm(cause, life.end, life.end, life.instance))
        self._own = {instance: _spans(harms) for instance, harms in own.items()}
        self._store_out = joined((h.start, h.end + BACK) for h in store)
        self._silent = joined((h.start, h.end) for h in store if h.cause is Cause.AWAY)

    def of(self, instance: str) -> Spans[Harm]:
        """Return the deaths, stops and troubles of one instance."""
        return self._own.get(instance, _NONE)

    def touching(self, instance: str, start: datetime, end: datetime) -> Iterator[Harm]:
        """Yield what befell an instance, or the store, in this span."""
        for spans in (self.of(instance), self.of_store):
            for span in spans.touching(start, end):
                yield span.what

    def able(self, life: Life) -> Pieces:
        """Return when an instance lived, and nothing was wrong with it or the store.

        Not right after a trouble either: it takes ``BACK`` to be back.
        """
        out = joined((h.start, h.end + BACK) for h in self._troubles_of.get(life.instance, ()))
        end = self.until if life.end is None else min(life.end, self.until)
        return [
            piece
            for start, until in without(life.start, end, self._store_out)
            for piece in without(start, until, out)
        ]

    def awake(self, instance: str, start: datetime, end: datetime) -> Pieces:
        """Return when in this span an instance could have been told something by the store."""
        frozen = joined(
            (h.start, h.end) for h in self._troubles_of.get(instance, ()) if h.cause is Cause.FROZEN
        )
        return [
            piece
            for since, until in without(start, end, self._silent)
            for piece in without(since, until, frozen)
        ]


def _harm(trouble: Trouble) -> Harm | None:
    cause = Cause[trouble.fault.name]
    instance = trouble.instance
    if trouble.fault is Fault.FORGOT:
        instance = None
    elif trouble.fault is Fault.CLOCK and instance is not None:
        return None
    elif trouble.fault in (Fault.FROZEN, Fault.CUT) and instance is None:
        cause = Cause.AWAY
    elif trouble.fault is Fault.AWAY and instance is not None:
        cause = Cause.CUT
    return Harm(cause, trouble.start, trouble.end, instance)


def _spans(harms: list[Harm]) -> Spans[Harm]:
    return Spans(Span(harm.start, harm.end, harm) for harm in harms)


_NONE: Spans[Harm] = Spans(())
