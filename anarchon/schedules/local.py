"""Schedules in local time: a calendar on a zone's segments, and the one rule for its jumps.

A calendar whose hours are all 24 follows elapsed time: it has a slot at every instant
whose clock reading matches, so on both passes of a repeated hour and never in a skipped
one. Any other names local times, and each named time is one slot: a repeated one on its
first pass, a skipped one at the instant the clocks jumped. Slots at one instant are one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta, tzinfo

from anarchon.schedules.calendar import Calendar
from anarchon.schedules.extended import dialect
from anarchon.schedules.fields import Fields, canonical_text
from anarchon.schedules.moments import as_utc
from anarchon.schedules.schedule import digest
from anarchon.schedules.zones import FIRST, LAST, Segment, offsets_digest, segment_at

_SECOND = timedelta(seconds=1)
# More than any two offsets differ by, and any clock was ever put back.
_FAR = timedelta(days=3)


@dataclass(frozen=True, slots=True, eq=False)
class LocalSchedule:
    """The slots of a calendar in a zone; equal by what it means, however it was written."""

    fields: Fields
    timezone: str
    _calendar: Calendar = field(repr=False)
    _zone: tzinfo = field(repr=False)

    def next_after(self, moment: datetime, /) -> datetime | None:
        """Return the first slot after the moment."""
        # Slots are whole seconds: the first that may follow is the next whole one.
        after = _naive_second(moment)
        if after >= LAST:
            return None
        slot = _first_from(self._calendar, self._zone, max(after, FIRST - _SECOND) + _SECOND)
        return None if slot is None else _aware(slot)

    def latest_at(self, moment: datetime, /) -> datetime | None:
        """Return the newest slot at or before the moment."""
        upto = _naive_second(moment)
        slot = _last_until(self._calendar, self._zone, min(upto, LAST - _SECOND))
        return None if slot is None else _aware(slot)

    def canonical(self) -> str:
        """Return the sets in order, how the day fields combine, and the zone."""
        reader = f" {dialect()}" if self.fields.days.is_extended else ""
        return f"cron {canonical_text(self.fields)} {self.timezone}{reader}"

    def fingerprint(self, now: datetime, /) -> str:
        """Return the hash of the canonical text and of the zone's offsets."""
        return digest(f"{self.canonical()} {offsets_digest(self._zone, now)}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LocalSchedule):
            return NotImplemented
        return (self.fields, self.timezone) == (other.fields, other.timezone)

    def __hash__(self) -> int:
        return hash((self.fields, self.timezone))


# `replace` would say the same of the two, at several times the cost.
def _naive_second(moment: datetime) -> datetime:
    utc = as_utc(moment)
    return datetime.combine(utc, time(utc.hour, utc.minute, utc.second))


def _aware(slot: datetime) -> datetime:
    return datetime.combine(slot, slot.time(), UTC)


def _first_from(calendar: Calendar, zone: tzinfo, moment: datetime) -> datetime | None:
    match: datetime | None = None
    # `match` answers for any wall time from `asked` to itself; asking again costs more.
    asked = moment
    while moment < LAST:
        segment = segment_at(zone, moment)
        if moment == segment.start and _owes_a_slot(calendar, segment):
            return moment
        wall = moment + segment.offset
        if not calendar.every_hour:
            wall = max(wall, segment.unrepeated)
        if match is None or not asked <= wall <= match:
            match, asked = calendar.at_or_after(wall), wall
            if match is None:
                return None
        if match < segment.end + segment.offset:
            return match - segment.offset
        # Once no later reading can lie before `asked`, nothing happens until the match.
        far = segment.end - moment > _FAR
        moment = max(segment.end, match - _FAR) if far else segment.end
    return None


def _last_until(calendar: Calendar, zone: tzinfo, moment: datetime) -> datetime | None:
    match: datetime | None = None
    asked = moment
    while moment >= FIRST:
        segment = segment_at(zone, moment)
        wall = moment + segment.offset
        if match is None or not match <= wall <= asked:
            match, asked = calendar.at_or_before(wall), wall
            if match is None:
                return None
        oldest = segment.start + segment.offset if calendar.every_hour else segment.unrepeated
        if match >= oldest:
            return match - segment.offset
        if _owes_a_slot(calendar, segment):
            return segment.start
        far = moment - segment.start > _FAR
        before = segment.start - _SECOND
        moment = min(before, match + _FAR) if far else before
    return None


def _owes_a_slot(calendar: Calendar, segment: Segment) -> bool:
    """Say whether the jump at the segment's start skipped a named time."""
    if calendar.every_hour or segment.skipped is None:
        return False
    match = calendar.at_or_after(segment.skipped)
    return match is not None and match < segment.start + segment.offset
