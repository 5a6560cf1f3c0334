"""What an entry means here that it does not mean to `celery beat`; nothing of it is a mistake.

What is said of single entries when they are read (``Warn``) is not said again here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from anarchon import At, Cron, CronSets, Every, Job, Polled
from anarchon.durations import describe
from anarchon.schedules.zones import segment_at
from anarchon_celery.custom import Custom
from anarchon_celery.entries import Entry
from anarchon_celery.own_options import NEXT

_SECOND, _MINUTE, _DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(days=1)
_ONLY_HERE = (str, At, Cron, CronSets, Every, Polled)
#: For how long ahead changes of the clocks are looked for.
_AHEAD = timedelta(days=730)


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that differs; ``option`` is the key of the entry that it is about."""

    option: str
    text: str


def differences(
    entry: Entry, job: Job, now: datetime, beside: Collection[str]
) -> Iterator[Difference]:
    """Say what differs; ``beside`` names the entries that stand beside their tasks."""
    unread = _unread_by_beat(entry, beside)
    if unread is not None:
        yield unread
    if isinstance(job.schedule, Every) and _is_of_beat(entry.written):
        yield Difference("schedule", _of_grid(job.schedule.interval))
    if isinstance(job.schedule, Cron | CronSets) and _meets_a_change(job.schedule, now):
        yield Difference(
            "schedule",
            f"its times meet changes of the clocks in {job.schedule.timezone}: a skipped time runs"
            " at the jump, and what is due every hour or more often runs on both passes of a"
            " repeated one",
        )
    if not isinstance(job.schedule, Polled) and "catch_up" not in entry.job:
        yield Difference("catch_up", _of_downtime(job.catch_up))
    expires = entry.options.get("expires")
    if isinstance(expires, int | float):
        yield Difference("expires", "is counted from the slot; celery beat counts from the send")
    for option in ("retry", "retry_policy"):
        if option in entry.options:
            yield Difference(option, "is ignored: the scheduler tries again, until max_late")


def _of_downtime(catch_up: timedelta) -> str:
    sent = f"the newest missed slot is sent if it was due within the last {describe(catch_up)}"
    # what a store without leases comes to
    return (
        f"after a downtime {sent if catch_up else 'no missed slot is sent'};"
        " celery beat sends one, however old"
    )


def _unread_by_beat(entry: Entry, beside: Collection[str]) -> Difference | None:
    why = None
    if entry.name in beside:
        why = "schedule", "stands beside its task"
    elif not _is_of_beat(entry.written):
        why = "schedule", "is written as only anarchon reads it"
    elif entry.options.get("expires") == NEXT:
        why = "expires", f'is "{NEXT}"'
    if why is None:
        return None
    return Difference(why[0], f"{why[1]}: celery beat cannot run it, should you go back")


def _is_of_beat(written: object) -> bool:
    # a schedule of Celery's kind that has to be asked is kept in one of ours
    return isinstance(written, Custom) or not isinstance(written, _ONLY_HERE)


def _of_grid(interval: timedelta) -> str:
    if interval % _DAY:
        return (
            "is due on a grid from 1970-01-01T00:00Z, so first within one interval; celery beat"
            " counts from its last send, or its start"
        )
    which = {_DAY: "midnight UTC", 7 * _DAY: "midnight UTC on Thursdays"}
    day = which.get(interval, f"midnight UTC, each {describe(interval)} from 1970-01-01")
    return (
        f"is due at {day}; celery beat counts from its last send. For local days:"
        " crontab(minute=0, hour=0)"
    )


def _meets_a_change(schedule: Cron | CronSets, now: datetime) -> bool:
    """Tell whether a slot lies where the clocks of its zone jump or go back, in the next years."""
    zone = ZoneInfo(schedule.timezone)
    moment = now.replace(tzinfo=None, microsecond=0)
    end = moment + _AHEAD
    segment = segment_at(zone, moment)
    while segment.end < end:
        following = segment_at(zone, segment.end)
        first, last = sorted((segment.offset, following.offset))
        start = following.start.replace(tzinfo=now.tzinfo)
        slot = schedule.next_after(start - (last - first) - _SECOND)
        if slot is not None and slot < start + (last - first):
            # not all that is due around then is due at a time that is skipped or repeated
            walls = _minutes(following.start + first, following.start + last)
            fields = schedule.fields
            if any(wall.hour in fields.hours and wall.minute in fields.minutes for wall in walls):
                return True
        segment = following
    return False


def _minutes(start: datetime, end: datetime) -> Iterator[datetime]:
    while start < end:
        yield start
        start += _MINUTE
