"""A job: a name, a schedule, an action, and its options, checked once when it is declared."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict, cast

from anarchon import leaseless
from anarchon.action import Handler, Kind, Publisher, kind_of, publishes
from anarchon.clock import MILLISECOND
from anarchon.durations import describe, duration
from anarchon.errors import ConfigurationError
from anarchon.run import OnStoreError, Overlap
from anarchon.schedules import Schedule

Duration = timedelta | float | str

_LONGEST_NAME = 200
_LEASE = timedelta(seconds=15)
_CATCH_UP = timedelta(minutes=5)
_START_WITHIN = timedelta(hours=1)
_JITTER = timedelta(milliseconds=500)
_SHORTEST_LEASE = timedelta(seconds=1)
_SHORTEST_HEARTBEAT = timedelta(milliseconds=100)
_SHORTEST_START = timedelta(seconds=1)
_LONGEST = timedelta(days=3650)


class JobOptions(TypedDict, total=False):
    """The options of one job; what is left out comes from the scheduler, then from here.

    Durations are ``timedelta``, seconds, or text such as ``"1h30m"``.
    """

    jitter: Duration
    """Longest random wait before a claim (500 ms), never more than a tenth of the interval."""
    max_late: Duration
    """How long after its slot a run may start (as ``catch_up``), never past the next slot."""
    lease: Duration
    """For how long a runner is believed to live without a heartbeat (15 s)."""
    heartbeat: Duration
    """How often the lease is renewed (a third of it)."""
    catch_up: Duration
    """How old the newest missed slot may be to be run at start (5 min); 0 for never."""
    timeout: Duration | None
    """How long one attempt may take (no limit); not for a message that is not tracked."""
    max_attempts: int
    """How many attempts may lapse before the run ends as lost (3)."""
    overlap: Literal["skip", "allow"]
    """``"skip"`` (default) or ``"allow"`` a slot while another run of the job is busy."""
    history_limit: int
    """How many attempts of the job the store keeps (1,000)."""
    track: bool
    """Follow what is published until its worker has ended it (no); only for a publisher."""
    start_within: Duration
    """How long after its slot a worker may begin a tracked run (1 h)."""
    on_store_error: Literal["retry", "run"]
    """What a worker does with a tracked run while the store is away: send it again for later
    (``"retry"``, default under overlap skip) or ``"run"`` it (default under allow)."""
    run_at_start: bool
    """Have one more slot, when the store first sees the job with this schedule (no)."""


OPTION_NAMES = frozenset(JobOptions.__annotations__)


@dataclass(frozen=True, slots=True)
class Job:
    """What to do and when, with every option settled.

    Made by ``define``; two jobs of one scheduler never share a name. ``start_within`` and
    ``on_store_error`` are ``None`` unless it is tracked.
    """

    name: str
    schedule: Schedule
    action: Handler | Publisher = field(repr=False)
    kind: Kind
    jitter: timedelta
    max_late: timedelta
    lease: timedelta
    heartbeat: timedelta
    catch_up: timedelta
    timeout: timedelta | None
    max_attempts: int
    overlap: Overlap
    history_limit: int
    track: bool
    start_within: timedelta | None
    on_store_error: OnStoreError | None
    run_at_start: bool

    def fingerprint(self, now: datetime) -> str:
        """Stand for schedule and task: equal on every instance that knows the job the same way."""
        known = [self.schedule.fingerprint(now)]
        if self.kind is Kind.PUBLISH:
            publisher = cast(Publisher, self.action)
            known += [publisher.task, publisher.sends_to]
        return hashlib.sha256("\n".join(known).encode()).hexdigest()[:16]


def define(
    name: str,
    schedule: Schedule,
    action: Handler | Publisher,
    options: Mapping[str, object],
    defaults: Mapping[str, object] | None = None,
    *,
    claims_only: str | None = None,
) -> Job:
    """Check a job's name and options and settle its defaults.

    ``claims_only`` is the label of a store that keeps no leases. Raises
    ``ConfigurationError``, which names the job, the option and what to write instead.
    """
    _check_name(name)
    try:
        _refuse_unknown(options)
        settled = {**(defaults or {}), **options}
        if claims_only is not None:
            leaseless.refuse_options(options, claims_only)
            leaseless.refuse_schedule(schedule, claims_only)
            settled |= leaseless.SETTLED
        track = yes_or_no("track", settled.get("track", False)) and publishes(action)
        _refuse_useless(options, action, track=track)
        job = _define(name, schedule, action, settled, track=track)
        _refuse_too_late(options, job)
    except ConfigurationError as error:
        raise error.of_job(name) from None
    return job


def check_defaults(
    options: Mapping[str, object], beside: Iterable[str], claims_only: str | None = None
) -> None:
    """Refuse options that no job could have; contradictions show when a job is declared.

    ``beside`` names what else may stand there, for whoever misspelt one of those;
    ``claims_only`` as for ``define``.
    """
    _refuse_unknown(options, beside)
    if claims_only is not None:
        leaseless.refuse_options(options, claims_only)


def _define(
    name: str,
    schedule: Schedule,
    action: Handler | Publisher,
    options: Mapping[str, Any],
    *,
    track: bool,
) -> Job:
    def length(option: str, default: timedelta, *, allow_zero: bool = False) -> timedelta:
        value = options.get(option)
        if value is None:
            return default
        return _bounded(option, duration(value, option=option, allow_zero=allow_zero))

    lease = _whole_millis(length("lease", _LEASE))
    if lease < _SHORTEST_LEASE:
        raise ConfigurationError(
            f"{describe(lease)} is too short to be renewed in time",
            option="lease",
            fix=f"write {describe(_SHORTEST_LEASE)} or more",
        )
    heartbeat = length("heartbeat", lease / 3)
    if heartbeat >= lease / 2:
        raise ConfigurationError(
            f"{describe(heartbeat)} leaves no room for one lost heartbeat"
            f" in a lease of {describe(lease)}",
            option="heartbeat",
            fix=f"write less than {describe(lease / 2)}, or leave it out for a third of the lease",
        )
    if heartbeat < _SHORTEST_HEARTBEAT:
        raise ConfigurationError(
            f"{describe(heartbeat)} is shorter than an answer of the store may take",
            option="heartbeat",
            fix=f"write {describe(_SHORTEST_HEARTBEAT)} or more",
        )
    catch_up = length("catch_up", _CATCH_UP, allow_zero=True)
    max_late = length("max_late", catch_up or _CATCH_UP)
    start_within = None
    if track:
        start_within = _whole_millis(length("start_within", _START_WITHIN))
        if start_within < _SHORTEST_START:
            raise ConfigurationError(
                f"{describe(start_within)} is too short for a message to arrive",
                option="start_within",
                fix=f"write {describe(_SHORTEST_START)} or more",
            )
        # nobody may begin it later, so it is not to be sent later
        catch_up, max_late = min(catch_up, start_within), min(max_late, start_within)
    jitter = length("jitter", _JITTER, allow_zero=True)
    if jitter >= max_late:
        raise ConfigurationError(
            f"{describe(jitter)} of jitter would make runs later than max_late"
            f" ({describe(max_late)}) allows",
            option="jitter",
            fix="write less jitter, or a longer max_late",
        )
    kind = kind_of(action)
    overlap = _overlap(options.get("overlap", Overlap.SKIP))
    return Job(
        name=name,
        schedule=schedule,
        action=action,
        kind=kind,
        jitter=jitter,
        max_late=max_late,
        lease=lease,
        heartbeat=heartbeat,
        catch_up=catch_up,
        timeout=_timeout(options.get("timeout"), is_timed=track or kind is not Kind.PUBLISH),
        max_attempts=whole_number("max_attempts", options.get("max_attempts", 3)),
        overlap=overlap,
        history_limit=whole_number("history_limit", options.get("history_limit", 1000)),
        track=track,
        start_within=start_within,
        on_store_error=_on_store_error(options.get("on_store_error"), overlap) if track else None,
        run_at_start=yes_or_no("run_at_start", options.get("run_at_start", False)),
    )


def _bounded(option: str, length: timedelta) -> timedelta:
    if length > _LONGEST:
        raise ConfigurationError(
            f"{describe(length)} is longer than anybody waits",
            option=option,
            fix=f"write {describe(_LONGEST)} or less",
        )
    return length


def _timeout(value: Any, *, is_timed: bool) -> timedelta | None:
    # the scheduler's default is not for a message that nobody follows
    if value is None or not is_timed:
        return None
    return _bounded("timeout", duration(value, option="timeout"))


def _refuse_useless(
    options: Mapping[str, object], action: Handler | Publisher, *, track: bool
) -> None:
    """Refuse what was written for this very job and means nothing to its action."""
    if options.get("track") and not publishes(action):
        raise ConfigurationError(
            "a handler is followed to its end as it is",
            option="track",
            fix="leave it out: it is for a job that publishes",
        )
    if track:
        return
    fix = "write track=True too, or leave it out"
    for option in ("start_within", "on_store_error"):
        if options.get(option) is not None:
            raise ConfigurationError(
                "it is about a published run that is tracked",
                option=option,
                fix=fix if publishes(action) else "leave it out",
            )
    if publishes(action) and options.get("timeout") is not None:
        raise ConfigurationError(
            "nobody follows the message to time its work",
            option="timeout",
            fix="write track=True too, or limit the task itself, by Celery's or Dramatiq's"
            " time_limit",
        )


def _refuse_too_late(options: Mapping[str, Any], job: Job) -> None:
    """Refuse to be asked for runs that nobody may begin any more."""
    if job.start_within is None:
        return
    for option in ("catch_up", "max_late"):
        value = options.get(option)
        if value is None:
            continue
        written = duration(value, option=option, allow_zero=True)
        if written > job.start_within:
            raise ConfigurationError(
                f"a run sent {describe(written)} after its slot could not be begun any more:"
                f" start_within is {describe(job.start_within)}",
                option=option,
                fix=f"write {describe(job.start_within)} or less, or a longer start_within",
            )


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name or not name.isprintable():
        raise ConfigurationError(
            f"{name!r} cannot be a job's name", option="name", fix="write a printable text"
        )
    if len(name) > _LONGEST_NAME:
        raise ConfigurationError(
            f"the name {name[:20]!r}... is {len(name)} characters long",
            option="name",
            fix=f"write at most {_LONGEST_NAME}",
        )


def _refuse_unknown(options: Mapping[str, object], beside: Iterable[str] = ()) -> None:
    for option in options:
        if option in OPTION_NAMES:
            continue
        known = {*OPTION_NAMES, *beside}
        near = difflib.get_close_matches(option, known, n=1)
        fix = f"did you mean {near[0]}?" if near else f"use one of {', '.join(sorted(known))}"
        if option in ("timezone", "tz"):
            fix = 'a time zone belongs to a cron: cron(name, "0 8 * * *", timezone="Europe/Athens")'
        raise ConfigurationError("there is no such option", option=option, fix=fix)


def whole_number(option: str, value: object) -> int:
    """Return an option that must be 1 or more; raises ``ConfigurationError`` naming it."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    raise ConfigurationError(
        f"{value!r} is not a number of 1 or more", option=option, fix="write 1, 2, 3 ..."
    )


def _overlap(value: object) -> Overlap:
    try:
        return Overlap(value)  # type: ignore[arg-type]  # whatever it is, Overlap refuses it
    except ValueError:
        raise ConfigurationError(
            f"{value!r} is not a rule", option="overlap", fix='write "skip" or "allow"'
        ) from None


def yes_or_no(option: str, value: object) -> bool:
    """Return an option that any text would be a yes to; raises ``ConfigurationError`` naming it."""
    if isinstance(value, bool):
        return value
    raise ConfigurationError(
        f"{value!r} is neither yes nor no", option=option, fix="write True or False"
    )


def _on_store_error(value: object, overlap: Overlap) -> OnStoreError:
    if value is None:
        return OnStoreError.RETRY if overlap is Overlap.SKIP else OnStoreError.RUN
    try:
        return OnStoreError(value)  # type: ignore[arg-type]  # whatever it is, it is refused
    except ValueError:
        raise ConfigurationError(
            f"{value!r} is not a rule", option="on_store_error", fix='write "retry" or "run"'
        ) from None


def _whole_millis(length: timedelta) -> timedelta:
    # stores keep a lease in milliseconds: all of them must mean the same length
    return length // MILLISECOND * MILLISECOND
