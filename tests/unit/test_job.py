"""A job's options are settled where it is declared; a mistake names job, option and fix."""

import functools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from anarchon.action import Kind
from anarchon.backends.memory import MemoryBackend
from anarchon.errors import ConfigurationError
from anarchon.job import OPTION_NAMES, Job, define
from anarchon.run import OnStoreError, Overlap, RunContext
from anarchon.scheduler import Scheduler
from anarchon.schedules import At, Cron, Every, Schedule

SLOT = datetime(2026, 1, 1, tzinfo=UTC)


async def work(ctx: RunContext) -> None:
    pass


class Send:
    task = "proj.send"
    sends_to = "nowhere"

    def publish(self, ctx: RunContext) -> str:
        return "id"


def declared(action: Any = work, **options: Any) -> Job:
    return define("sync", Every("1h"), action, options)


def refused(name: Any = "sync", action: Any = work, **options: Any) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        define(name, Every("1h"), action, options)
    return caught.value


def test_defaults_are_those_of_the_guide() -> None:
    job = declared()

    assert job.jitter == timedelta(milliseconds=500)
    assert job.lease == timedelta(seconds=15)
    assert job.heartbeat == timedelta(seconds=5)
    assert job.catch_up == job.max_late == timedelta(minutes=5)
    assert (job.timeout, job.max_attempts, job.history_limit) == (None, 3, 1000)
    assert job.overlap is Overlap.SKIP


def test_one_option_settles_the_default_of_another() -> None:
    assert declared(lease="30s").heartbeat == timedelta(seconds=10)
    assert declared(catch_up="1h").max_late == timedelta(hours=1)
    assert declared(catch_up=0).max_late == timedelta(minutes=5)


@pytest.mark.parametrize("value", ["10m", 600, 600.0, timedelta(minutes=10)])
def test_a_duration_may_be_written_in_three_ways(value: object) -> None:
    assert declared(timeout=value).timeout == timedelta(minutes=10)


def test_the_scheduler_s_options_are_the_defaults_of_its_jobs() -> None:
    job = define("sync", Every("1h"), work, {"lease": "6s"}, {"lease": "60s", "timeout": "1m"})

    assert (job.lease, job.timeout) == (timedelta(seconds=6), timedelta(minutes=1))


@pytest.mark.parametrize(
    ("options", "option", "fix"),
    [
        ({"lease": "0.5s"}, "lease", "1s or more"),
        ({"lease": "soon"}, "lease", "seconds"),
        ({"lease": 0}, "lease", None),
        ({"lease": "15s", "heartbeat": "7.5s"}, "heartbeat", "less than 7.5s"),
        ({"lease": "15s", "heartbeat": "1m"}, "heartbeat", "a third of the lease"),
        ({"heartbeat": -1}, "heartbeat", None),
        ({"jitter": "10m"}, "jitter", "less jitter"),
        ({"jitter": "5s", "max_late": "5s"}, "jitter", "longer max_late"),
        ({"heartbeat": "20ms"}, "heartbeat", "100ms or more"),
        ({"timeout": timedelta.max}, "timeout", "or less"),
        ({"catch_up": timedelta.max}, "catch_up", "or less"),
        ({"max_late": 0}, "max_late", None),
        ({"catch_up": -1}, "catch_up", None),
        ({"timeout": 0}, "timeout", None),
        ({"timeout": "10 parsecs"}, "timeout", None),
        ({"max_attempts": 0}, "max_attempts", "1, 2, 3"),
        ({"max_attempts": True}, "max_attempts", None),
        ({"max_attempts": "3"}, "max_attempts", None),
        ({"history_limit": 0}, "history_limit", None),
        ({"history_limit": 1.5}, "history_limit", None),
        ({"overlap": "queue"}, "overlap", '"skip" or "allow"'),
        ({"overlap": None}, "overlap", None),
        ({"tiemout": "5s"}, "tiemout", "timeout"),
        ({"colour": "red"}, "colour", "history_limit"),
    ],
)
def test_a_mistake_names_the_job_the_option_and_the_fix(
    options: dict[str, Any], option: str, fix: str | None
) -> None:
    error = refused(**options)

    assert (error.job, error.option) == ("sync", option)
    assert error.fix
    assert fix is None or fix in error.fix
    assert str(error).startswith("job 'sync': ")
    assert "\n" not in str(error)


@pytest.mark.parametrize("name", ["", "two\nlines", "nul\0", None, 7, "x" * 201])
def test_a_name_that_cannot_be_kept_or_shown_is_refused(name: object) -> None:
    assert refused(name).option == "name"


@pytest.mark.parametrize("name", ["a", "x" * 200, "näme", "two words", "proj.tasks.add(1, 2)"])
def test_other_names_are_the_user_s_business(name: str) -> None:
    assert define(name, Every("1h"), work, {}).name == name


def no_arguments() -> None: ...


def two_arguments(ctx: RunContext, more: int) -> None: ...


def keyword_only(*, ctx: RunContext) -> None: ...


def keyword_as_well(ctx: RunContext, *, more: int) -> None: ...


@functools.wraps(two_arguments)
def wrapping_two(ctx: RunContext) -> None: ...


@pytest.mark.parametrize(
    "action",
    [
        None,
        "work",
        3,
        no_arguments,
        two_arguments,
        keyword_only,
        keyword_as_well,
        wrapping_two,
        functools.partial(keyword_as_well),
    ],
)
def test_an_action_that_cannot_be_called_with_a_context_is_refused(action: object) -> None:
    error = refused(action=action)

    assert (error.job, error.option) == ("sync", "handler")
    assert error.fix


def one_and_a_default(ctx: RunContext, more: int = 1) -> None: ...


def only_defaults(ctx: RunContext | None = None, more: int = 1) -> None: ...


def any_number(*arguments: object) -> None: ...


def a_keyword_with_a_default(ctx: RunContext, *, more: int = 1) -> None: ...


@pytest.mark.parametrize(
    "action",
    [
        one_and_a_default,
        only_defaults,
        any_number,
        a_keyword_with_a_default,
        lambda ctx: None,
        functools.partial(two_arguments, more=1),
    ],
)
def test_whatever_can_be_called_with_a_context_is_taken(action: Callable[..., object]) -> None:
    assert declared(action).kind is Kind.THREAD


def test_a_publisher_that_does_not_say_where_it_sends_to_is_refused() -> None:
    class Silent:
        task = "proj.send"

        def publish(self, ctx: RunContext) -> str:
            return "id"

    error = refused(action=Silent())

    assert error.option == "handler"
    assert "sends_to" in error.problem


def test_a_timeout_of_a_message_is_refused_and_a_scheduler_s_default_is_for_handlers() -> None:
    error = refused(action=Send(), timeout="5s")

    assert error.option == "timeout"
    assert "track" in (error.fix or "")
    assert define("sync", Every("1h"), Send(), {}, {"timeout": "5s"}).timeout is None


def test_a_tracked_job_may_be_begun_for_an_hour_and_takes_a_timeout() -> None:
    job = declared(Send(), track=True, timeout="5m")

    assert (job.track, job.start_within) == (True, timedelta(hours=1))
    assert job.timeout == timedelta(minutes=5)
    assert define("sync", Every("1h"), Send(), {"track": True}, {"timeout": "5s"}).timeout


@pytest.mark.parametrize(("overlap", "rule"), [("skip", "retry"), ("allow", "run")])
def test_a_store_that_is_away_holds_up_a_tracked_run_only_where_none_may_overlap(
    overlap: str, rule: str
) -> None:
    tracked = declared(Send(), track=True, overlap=overlap)
    other = declared(Send(), track=True, overlap=overlap, on_store_error="run")

    assert tracked.on_store_error == OnStoreError(rule)
    assert other.on_store_error is OnStoreError.RUN


def test_what_is_not_tracked_has_no_options_of_tracking() -> None:
    jobs = [declared(), declared(Send()), declared(track=False), declared(Send(), track=False)]

    assert [(j.track, j.start_within, j.on_store_error) for j in jobs] == [(False, None, None)] * 4


def test_a_scheduler_that_tracks_tracks_its_publishers() -> None:
    defaults = {"track": True, "start_within": "2h", "on_store_error": "run"}

    job = define("sync", Every("1h"), Send(), {}, defaults)
    assert (job.start_within, job.on_store_error) == (timedelta(hours=2), OnStoreError.RUN)
    assert not define("sync", Every("1h"), work, {}, defaults).track
    assert not define("sync", Every("1h"), Send(), {"track": False}, defaults).track


def test_nothing_is_sent_later_than_it_may_be_begun() -> None:
    job = declared(Send(), track=True, start_within="90s")
    other = define("sync", Every("1h"), Send(), {"track": True}, {"catch_up": "2h"})

    assert job.catch_up == job.max_late == timedelta(seconds=90)
    assert other.catch_up == other.max_late == timedelta(hours=1)


@pytest.mark.parametrize(
    ("action", "options", "option", "fix"),
    [
        (work, {"track": True}, "track", "publishes"),
        (Send(), {"track": "yes"}, "track", "True or False"),
        (Send(), {"track": None}, "track", "True or False"),
        (work, {"start_within": "1h"}, "start_within", "leave it out"),
        (Send(), {"start_within": "1h"}, "start_within", "track=True"),
        (Send(), {"on_store_error": "run"}, "on_store_error", "track=True"),
        (Send(), {"track": True, "on_store_error": "wait"}, "on_store_error", '"retry" or "run"'),
        (Send(), {"track": True, "start_within": "999ms"}, "start_within", "1s or more"),
        (Send(), {"track": True, "start_within": 0}, "start_within", None),
        (Send(), {"track": True, "catch_up": "2h"}, "catch_up", "1h or less"),
        (Send(), {"track": True, "start_within": "1m", "max_late": 61}, "max_late", "1m or less"),
    ],
)
def test_a_mistake_in_an_option_of_tracking_names_it_and_the_fix(
    action: Any, options: dict[str, Any], option: str, fix: str | None
) -> None:
    error = refused(action=action, **options)

    assert (error.job, error.option) == ("sync", option)
    assert error.fix
    assert fix is None or fix in error.fix


def generator(ctx: RunContext) -> Any:
    yield 1


async def asynchronous_generator(ctx: RunContext) -> Any:
    yield 1


@pytest.mark.parametrize("action", [generator, asynchronous_generator])
def test_a_handler_that_yields_is_refused(action: Any) -> None:
    assert refused(action=action).option == "handler"


class Worker:
    async def __call__(self, ctx: RunContext) -> None: ...


class Methods:
    async def later(self, ctx: RunContext) -> None: ...

    def now(self, ctx: RunContext) -> None: ...

    @staticmethod
    def still(ctx: RunContext) -> None: ...


def with_more(more: int, ctx: RunContext) -> None: ...


async def later_with_more(more: int, ctx: RunContext) -> None: ...


@pytest.mark.parametrize(
    ("action", "kind"),
    [
        (work, Kind.COROUTINE),
        (Worker(), Kind.COROUTINE),
        (Methods().later, Kind.COROUTINE),
        (functools.partial(later_with_more, 1), Kind.COROUTINE),
        (Methods().now, Kind.THREAD),
        (Methods.still, Kind.THREAD),
        (functools.partial(with_more, 1), Kind.THREAD),
        (lambda ctx: None, Kind.THREAD),
        (print, Kind.THREAD),
        (Send(), Kind.PUBLISH),
    ],
)
def test_how_an_action_is_carried_out_is_read_off_it(
    action: Callable[..., Any], kind: Kind
) -> None:
    assert declared(action).kind is kind


def test_the_fingerprint_stands_for_schedule_and_task() -> None:
    job = declared()

    assert job.fingerprint(SLOT) == declared(lease="60s", max_attempts=1).fingerprint(SLOT)
    assert job.fingerprint(SLOT) != define("sync", Every("2h"), work, {}).fingerprint(SLOT)
    assert job.fingerprint(SLOT) != declared(Send()).fingerprint(SLOT)
    assert job.fingerprint(SLOT) == define("other", Every("1h"), work, {}).fingerprint(SLOT)


def test_the_fingerprint_stands_for_where_messages_go() -> None:
    """Two environments that share a store by mistake are to notice."""

    class Elsewhere(Send):
        sends_to = "redis://staging"

    assert declared(Send()).fingerprint(SLOT) != declared(Elsewhere()).fingerprint(SLOT)


def test_a_lease_is_whole_milliseconds_for_every_store() -> None:
    assert declared(lease=1.2345678).lease == timedelta(milliseconds=1234)


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"grace": "soon"}, "grace"),
        ({"grace": -1}, "grace"),
        ({"max_threads": 0}, "max_threads"),
        ({"max_publishing": 2.5}, "max_publishing"),
        ({"namespace": ""}, "namespace"),
        ({"namespace": "two\nlines"}, "namespace"),
        ({"leese": "5s"}, "leese"),
        ({"namepace": "shop"}, "namepace"),
        ({"timezone": "Europe/Athens"}, "timezone"),
        ({"store": None}, "store"),
    ],
)
def test_a_mistake_in_the_scheduler_s_own_options_names_option_and_fix(
    options: dict[str, Any], option: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Scheduler(**{"store": MemoryBackend(), **options})

    assert caught.value.option == option
    assert caught.value.fix


@pytest.mark.parametrize(
    ("declare", "option"),
    [
        (lambda s: s.every("sync", "0s", work), "interval"),
        (lambda s: s.every("sync", "soon", work), "interval"),
        (lambda s: s.every("sync", "10s", work, offset="10s"), "offset"),
        (lambda s: s.every("sync", "10s", work, anchor=datetime(2026, 1, 1)), "anchor"),  # noqa: DTZ001
        (lambda s: s.cron("sync", "61 * * * *", work), "minute"),
        (lambda s: s.cron("sync", "* * *", work), "expression"),
        (lambda s: s.cron("sync", "* * * * *", work, timezone="Mars/Base"), "timezone"),
        (lambda s: s.cron("sync", "0 0 31 2 *", work), None),
        (lambda s: s.at("sync", datetime(2027, 1, 1), work), "moment"),  # noqa: DTZ001
    ],
)
def test_a_mistake_in_a_schedule_names_its_job(
    declare: Callable[[Scheduler], object], option: str | None
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        declare(Scheduler(MemoryBackend()))

    assert caught.value.job == "sync"
    assert option is None or option in (caught.value.option or "") + str(caught.value)
    assert caught.value.fix


def test_every_option_is_documented_by_its_default() -> None:
    assert set(Job.__dataclass_fields__) >= OPTION_NAMES
    assert define("once", At(SLOT), work, {}).jitter == timedelta(milliseconds=500)


@pytest.mark.parametrize(
    ("schedule", "inline", "published"),
    [
        (Every("1m"), "a00d074712d3e640", "5dfa5822efc188c7"),
        (Cron("0 8 * * 1-5"), "269dd6f4f710554d", "dbe618fcef89ca8f"),
        (Cron("0 8 * * 1-5", "Asia/Tokyo"), "5f651055c4eb5d71", "e8e06c431ca9e561"),
        (At(datetime(2027, 1, 1, 9, tzinfo=UTC)), "bcdd9450cfa8f11f", "cfa03df03df7d2ff"),
    ],
    ids=str,
)
def test_the_fingerprint_of_a_job_stays_what_it_was(
    schedule: Schedule, inline: str, published: str
) -> None:
    """G11: to a version that makes another one of it, every job would be a new edition."""

    class Sender:
        task, sends_to = "proj.send", "redis://broker/0 celery"

        def publish(self, ctx: RunContext) -> str:
            return ""

    now = datetime(2026, 6, 15, 12, tzinfo=UTC)

    assert define("sync", schedule, work, {}).fingerprint(now) == inline
    assert define("sync", schedule, Sender(), {}).fingerprint(now) == published
