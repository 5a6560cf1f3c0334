"""Our own options of an entry, wherever they are written, and the job options they come to.

They ride in ``options["anarchon"]`` of the entry, where stock beat would start with the same
file; or stand in the setting ``anarchon_jobs`` under the entry's name. An option that both
give is the setting's: a deployment knows better than the code it deploys.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from functools import partial
from typing import Any, TypeVar

from celery import Celery

from anarchon import ConfigurationError, Cron, CronSets, JobOptions, Polled, Schedule
from anarchon.durations import duration
from anarchon_celery.settings import flag, setting

T = TypeVar("T")

NEXT = "next"
"""As ``expires``: when the job's next slot comes."""

#: What an entry has beside the options of a job.
_BESIDE = ("enabled", "timezone")
KNOWN = (*JobOptions.__annotations__, *_BESIDE)
_SHORTEST = timedelta(seconds=1)
#: What a message takes, and people write a level too high or too low.
OF_MESSAGES = frozenset(
    (
        *("queue", "exchange", "routing_key", "priority", "expires", "countdown", "eta"),
        *("headers", "serializer", "compression", "time_limit", "soft_time_limit", "link"),
        *("link_error", "retry", "retry_policy", "task_id", "ignore_result", "shadow"),
    )
)


@dataclass(frozen=True, slots=True)
class OwnSettings:
    """What the project's settings say of our options, for all entries.

    ``jobs`` are the options of single ones, ``track`` is what holds unless an entry says
    otherwise, and ``deadline`` is Celery's ``beat_cron_starting_deadline``.
    """

    jobs: Mapping[str, Mapping[str, object]]
    track: bool
    deadline: timedelta | None

    @classmethod
    def read(cls, app: Celery) -> tuple[OwnSettings, list[ConfigurationError]]:
        """Return them, and what is wrong with them."""
        problems: list[ConfigurationError] = []

        def checked(read: Callable[[Celery], T], otherwise: T) -> T:
            try:
                return read(app)
            except ConfigurationError as error:
                problems.append(error)
                return otherwise

        read = cls(
            checked(_jobs, {}),
            checked(partial(flag, name="anarchon_track"), False),
            checked(_deadline, None),
        )
        return read, problems


def _jobs(app: Celery) -> dict[str, Mapping[str, object]]:
    jobs = setting(app, "anarchon_jobs")
    if jobs is None:
        return {}
    if isinstance(jobs, Mapping) and all(
        isinstance(name, str) and isinstance(options, Mapping) for name, options in jobs.items()
    ):
        return dict(jobs)
    raise ConfigurationError(
        f"{jobs!r} is not a mapping of entries to options",
        option="anarchon_jobs",
        fix='write {"NAME": {"overlap": "skip"}}',
    )


def _deadline(app: Celery) -> timedelta | None:
    seconds: Any = app.conf.beat_cron_starting_deadline
    if seconds is None:
        return None
    if isinstance(seconds, int | float) and not isinstance(seconds, bool):
        return duration(seconds, option="beat_cron_starting_deadline", allow_zero=True)
    raise ConfigurationError(
        f"{seconds!r} is not a number of seconds",
        option="beat_cron_starting_deadline",
        fix="write seconds as a number",
    )


def unknown_names(named: Collection[str], known: Collection[str]) -> list[ConfigurationError]:
    """Return what is wrong with a setting that names entries which are not there."""
    problems = []
    for name in named:
        if name in known:
            continue
        near = difflib.get_close_matches(name, known, n=1)
        problems.append(
            ConfigurationError(
                "there is no such entry",
                job=name,
                option="anarchon_jobs",
                fix=f"did you mean {near[0]!r}?" if near else "write the name of one, or add it",
            )
        )
    return problems


def refuse_unknown(name: object) -> None:
    """Refuse an option that no entry has."""
    if name in KNOWN:
        return
    near = difflib.get_close_matches(str(name), KNOWN, n=1)
    fix = f"did you mean {near[0]}?" if near else f"use one of {', '.join(sorted(KNOWN))}"
    if name in ("tz", "time_zone"):
        fix = "did you mean timezone?"
    elif name in OF_MESSAGES:
        fix = f'it is one of the message: "options": {{"{name}": ..., "anarchon": {{...}}}}'
    raise ConfigurationError("there is no such option", option=str(name), fix=fix)


def misplaced(options: Mapping[str, object]) -> list[str]:
    """Say what of a message's options was surely meant as one of ours.

    A warning, not an error: what Celery is given it takes, and a task may have a use for it.
    """
    said = []
    for name in options:
        # Celery has a timeout of its own, for sending
        if name in KNOWN and name != "timeout":
            inside = f'"options": {{"anarchon": {{"{name}": ...}}}}'
            said.append(f"option {name!r} goes to the message, and means nothing: write {inside}")
        elif name != "anarchon" and difflib.get_close_matches(name, ["anarchon"], cutoff=0.8):
            said.append(f'option {name!r} goes to the message: did you mean "anarchon"?')
    return said


def mapping(option: str, value: object) -> dict[str, object]:
    """Return a mapping of names, and an empty one for ``None``."""
    if value is None:
        return {}
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return dict(value)
    raise ConfigurationError(
        f"{value!r} is not a mapping of names", option=option, fix='write {"NAME": value}'
    )


def is_enabled(ours: Mapping[str, object]) -> bool:
    """Tell whether an entry is to run at all."""
    enabled = ours.get("enabled", True)
    if isinstance(enabled, bool):
        return enabled
    raise ConfigurationError(
        f"{enabled!r} is neither yes nor no",
        option="enabled",
        fix='write True or False, such as os.environ.get("STAGE") == "production"',
    )


def timezone_of(ours: Mapping[str, object]) -> str | tzinfo | None:
    """Return the entry's own time zone."""
    zone = ours.get("timezone")
    if zone is None or (isinstance(zone, str) and zone) or isinstance(zone, tzinfo):
        return zone
    raise ConfigurationError(
        f"{zone!r} is no time zone",
        option="timezone",
        fix='write an IANA name such as "Europe/Athens"',
    )


def check_expires(schedule: Schedule | None, expires: Any) -> None:
    """Refuse an ``expires`` that no worker could read, or that expires everything."""
    if expires is None or isinstance(expires, datetime):
        return
    if expires == NEXT:
        if isinstance(schedule, Polled):
            raise ConfigurationError(
                "nobody knows when the next slot of a schedule comes that has to be asked",
                option="expires",
                fix="write how many seconds after its slot a message may be begun",
            )
        return
    if isinstance(expires, str) and _is_iso(expires):
        return
    if isinstance(expires, bool) or not isinstance(expires, int | float):
        raise ConfigurationError(
            f"{expires!r} is no moment",
            option="expires",
            fix='write seconds, a datetime, or "next" for when the next slot comes',
        )
    if not math.isfinite(expires) or expires <= 0:
        raise ConfigurationError(
            f"with {expires!r} seconds no worker could ever begin it",
            option="expires",
            fix="write more than zero",
        )


def _is_iso(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def job_options(
    schedule: Schedule,
    options: Mapping[str, object],
    settings: OwnSettings,
    ours: Mapping[str, object],
) -> dict[str, object]:
    """Return the options of the job that an entry is to be; ``options`` are its message's."""
    job = {name: value for name, value in ours.items() if name not in _BESIDE}
    if settings.track:
        job.setdefault("track", True)
    if job.get("track") is True:
        if options.get("task_id") is not None:
            raise ConfigurationError(
                "every message would have the same task_id, and a worker that finds one of them"
                " expired discards all that follow for hours",
                option="track",
                fix='leave task_id out of options, or write "track": False',
            )
        expires = options.get("expires")
        if isinstance(expires, int | float):
            job.setdefault("start_within", max(timedelta(seconds=expires), _SHORTEST))
    if settings.deadline is not None and isinstance(schedule, Cron | CronSets):
        for name, value in _by_deadline(settings.deadline, job).items():
            job.setdefault(name, value)
    return job


def _by_deadline(deadline: timedelta, job: Mapping[str, Any]) -> dict[str, object]:
    """Return what a deadline of beat's is here: how late a slot of a crontab may still run."""
    if "catch_up" in job:
        return {}
    if job.get("track") is True:
        # what nobody may begin any more is not sent
        start_within = duration(job.get("start_within") or "1h", option="start_within")
        deadline = min(deadline, start_within)
    return {"catch_up": deadline, "max_late": max(deadline, _SHORTEST)}
