"""An oracle that shares nothing with the code it judges: it walks the clock, reading by reading."""

from collections import namedtuple
from datetime import UTC, datetime, timedelta

from hypothesis import HealthCheck, settings

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
AROUND = timedelta(hours=5)

MODEST = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])

Change = namedtuple("Change", "at before after")
"""The first whole minute of UTC with the offset ``after``."""


def at(text):
    """Read ``2026-11-29T12:00:00Z``."""
    return datetime.fromisoformat(text)


def changes_of(zone, first_year, last_year):
    """Find every change of a zone's offset, by looking each day, then each minute."""
    day = datetime(first_year, 1, 1, tzinfo=UTC)
    found = []
    while day.year <= last_year:
        offset, tomorrow = _offset(zone, day), day + DAY
        if _offset(zone, tomorrow) != offset:
            minute = day
            while _offset(zone, minute) == offset:
                minute += MINUTE
            found.append(Change(minute, offset, _offset(zone, minute)))
        day = tomorrow
    return found


def _offset(zone, moment):
    return moment.astimezone(zone).utcoffset()


class Clock:
    """The readings of a local clock around a change, minute by minute."""

    def __init__(self, zone, change):
        self.jump = change.after - change.before
        self.start = change.at - AROUND - abs(self.jump)
        self.end = change.at + AROUND
        self.change = change.at
        minutes = (self.end - self.start) // MINUTE
        self.instants = [self.start + step * MINUTE for step in range(minutes)]
        self.readings = [i.astimezone(zone).replace(tzinfo=None) for i in self.instants]

    def slots(self, matches, every_hour):
        """Apply the rule of the house to each reading in turn."""
        if every_hour:
            pairs = zip(self.instants, self.readings, strict=True)
            return [instant for instant, reading in pairs if matches(reading)]
        seen: dict[datetime, datetime] = {}
        for instant, reading in zip(self.instants, self.readings, strict=True):
            if matches(reading):
                seen.setdefault(reading, instant)
        slots = set(seen.values())
        if timedelta(0) < self.jump < DAY:
            after = self.readings[self.instants.index(self.change)]
            skipped = after - self.jump
            while skipped < after:
                if matches(skipped):
                    slots.add(self.change)
                skipped += MINUTE
        return sorted(slots)


def forwards(schedule, start, end):
    """List the slots in [start, end) by asking for the next one."""
    found = []
    slot = schedule.next_after(start - timedelta(microseconds=1))
    while slot is not None and slot < end:
        found.append(slot)
        slot = schedule.next_after(slot)
    return found


def backwards(schedule, start, end):
    """List the slots in [start, end) by asking for the newest one, then the one before."""
    found = []
    slot = schedule.latest_at(end - timedelta(microseconds=1))
    while slot is not None and slot >= start:
        found.append(slot)
        slot = schedule.latest_at(slot - timedelta(microseconds=1))
    return found[::-1]
