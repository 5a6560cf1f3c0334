"""A job: a name, a schedule, an action, and its options, checked once when it is declared."""

from __future__ import annotations

import difflib
import functools
import hashlib
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Literal, Protocol, TypedDict, cast

from anarchon.durations import describe, duration
from anarchon.errors import ConfigurationError
from anarchon.run import Overlap, RunContext
from anarchon.schedules import Schedule

Duration = timedelta | float | str
Handler = Callable[[RunContext], Awaitable[object] | object]

_LONGEST_NAME = 200
_SHORTEST_LEASE = timedelta(seconds=1)
_SHORTEST_HEARTBEAT = timedelta(milliseconds=100)
_LONGEST = timedelta(days=3650)


class Publisher(Protocol):
    """An action that hands a run to a broker instead of doing it here."""

    #: What the message asks for, and where it goes, without a password; a change of either is
    #: a new edition of the job, so that two environments that share a store by mistake notice.
    task: str
    sends_to: str

    def publish(self, ctx: RunContext) -> str:
        """Send the message and return its id, once the broker has confirmed it.

        Called on the publishing thread. Must end by itself within seconds; whatever it raises
        counts as not sent and is tried again.
        """


class Kind(StrEnum):
    """How an action is carried out."""

    COROUTINE = "coroutine"
    THREAD = "thread"
    PUBLISH = "publish"


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
    """How long one attempt may take (no limit)."""
    max_attempts: int
    """How many attempts may lapse before the run ends as lost (3)."""
    overlap: Literal["skip", "allow"]
    """``"skip"`` (default) or ``"allow"`` a slot while another run of the job is busy."""
    history_limit: int
    """How many attempts of the job the store keeps (1,000)."""


OPTION_NAMES = frozenset(JobOptions.__annotations__)


@dataclass(frozen=True, slots=True)
class Job:
    """What to do and when, with every option settled.

    Made by ``define``; two jobs of one scheduler never share a name.
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
) -> Job:
    """Check a job's name and options and settle its defaults.

    Raises ``ConfigurationError``, which names the job, the option and what to write instead.
    """
    _check_name(name)
    try:
        _refuse_unknown(options)
        if options.get("timeout") is not None and callable(getattr(action, "publish", None)):
            raise ConfigurationError(
                "a message is not timed",
                option="timeout",
                fix="limit the task itself, as by Celery's time_limit",
            )
        return _define(name, schedule, action, {**(defaults or {}), **options})
    except ConfigurationError as error:
        raise error.of_job(name) from None


def check_defaults(options: Mapping[str, object], beside: Iterable[str]) -> None:
    """Refuse options that no job could have; contradictions show when a job is declared.

    ``beside`` names what else may stand there, for whoever misspelt one of those.
    """
    _refuse_unknown(options, beside)


def _define(
    name: str, schedule: Schedule, action: Handler | Publisher, options: Mapping[str, Any]
) -> Job:
    def length(option: str, default: timedelta, *, allow_zero: bool = False) -> timedelta:
        value = options.get(option)
        if value is None:
            return default
        return _bounded(option, duration(value, option=option, allow_zero=allow_zero))

    lease = _whole_millis(length("lease", timedelta(seconds=15)))
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
    catch_up = length("catch_up", timedelta(minutes=5), allow_zero=True)
    max_late = length("max_late", catch_up or timedelta(minutes=5))
    jitter = length("jitter", timedelta(milliseconds=500), allow_zero=True)
    if jitter >= max_late:
        raise ConfigurationError(
            f"{describe(jitter)} of jitter would make runs later than max_late"
            f" ({describe(max_late)}) allows",
            option="jitter",
            fix="write less jitter, or a longer max_late",
        )
    kind = _kind(action)
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
        timeout=_timeout(kind, options.get("timeout")),
        max_attempts=whole_number("max_attempts", options.get("max_attempts", 3)),
        overlap=_overlap(options.get("overlap", Overlap.SKIP)),
        history_limit=whole_number("history_limit", options.get("history_limit", 1000)),
    )


def _bounded(option: str, length: timedelta) -> timedelta:
    if length > _LONGEST:
        raise ConfigurationError(
            f"{describe(length)} is longer than anybody waits",
            option=option,
            fix=f"write {describe(_LONGEST)} or less",
        )
    return length


def _timeout(kind: Kind, value: Any) -> timedelta | None:
    # a message is sent within seconds, or tried again; the scheduler's default is for handlers
    if value is None or kind is Kind.PUBLISH:
        return None
    return _bounded("timeout", duration(value, option="timeout"))


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


def _kind(action: Handler | Publisher) -> Kind:
    if callable(getattr(action, "publish", None)):
        for name in ("task", "sends_to"):
            if not isinstance(getattr(action, name, None), str):
                raise ConfigurationError(
                    f"{action!r} publishes, and has no text {name!r}",
                    option="handler",
                    fix="give it the attributes of anarchon.Publisher",
                )
        return Kind.PUBLISH
    if not callable(action):
        raise ConfigurationError(
            f"{action!r} cannot be called", option="handler", fix="give a function of one argument"
        )
    _check_signature(action)
    inner: object = action
    while isinstance(inner, functools.partial):
        inner = inner.func
    method = type(inner).__call__ if callable(inner) else None
    if inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(method):
        return Kind.COROUTINE
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise ConfigurationError(
            f"{inner!r} yields, and nobody would ask it for more",
            option="handler",
            fix="give a function that returns when the work is done",
        )
    return Kind.THREAD


def _check_signature(handler: Callable[..., object]) -> None:
    try:
        signature = inspect.signature(handler)
    except (TypeError, ValueError):
        return  # written in C: called with one argument, come what may
    try:
        signature.bind(object())
    except TypeError:
        raise ConfigurationError(
            f"{getattr(handler, '__qualname__', handler)!s}{signature} cannot be called with one"
            " argument",
            option="handler",
            fix="give a function that takes the run's context: def handler(ctx)",
        ) from None


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


def _whole_millis(length: timedelta) -> timedelta:
    # stores keep a lease in milliseconds: all of them must mean the same length
    return timedelta(milliseconds=length // timedelta(milliseconds=1))
