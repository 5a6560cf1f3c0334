"""Options of ours, in an entry and in settings, and the jobs they make of entries."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from celery.schedules import crontab

from anarchon import Job, JobOptions, Overlap
from anarchon_celery import InvalidEntries, scheduler_for
from anarchon_celery.entries import CLEANUP
from tests.celery.runs import entry_of, jobs_of, problems_of

# ---- options of ours


def test_jobs_of_entries_may_overlap_by_default(app: Celery) -> None:
    app.conf.beat_schedule = {"job": {"task": "t", "schedule": 5}}

    (job,) = scheduler_for(app, store="memory://").jobs

    assert job.overlap is Overlap.ALLOW


def test_options_of_ours_ride_along_and_are_not_published(app: Celery) -> None:
    ours = {"overlap": "skip", "max_attempts": 7}
    app.conf.beat_schedule = {
        "job": {"task": "t", "schedule": 5, "options": {"queue": "aside", "anarchon": ours}}
    }

    (job,) = scheduler_for(app, store="memory://").jobs

    assert (job.overlap, job.max_attempts) == (Overlap.SKIP, 7)
    assert entry_of(app).options == {"queue": "aside"}


@pytest.mark.parametrize(
    ("namespace", "key"),
    [
        (None, "anarchon_jobs"),
        (None, "ANARCHON_JOBS"),
        ("CELERY", "CELERY_ANARCHON_JOBS"),
        ("CELERY", "ANARCHON_JOBS"),
    ],
)
def test_options_of_ours_may_stand_in_a_setting(namespace: str | None, key: str) -> None:
    prefix = "CELERY_" if namespace else ""
    lower = "beat_schedule" if key.islower() else "CELERYBEAT_SCHEDULE"
    schedule_key = f"{prefix}BEAT_SCHEDULE" if namespace else lower
    settings = {
        schedule_key: {"job": {"task": "t", "schedule": 5}},
        key: {"job": {"overlap": "skip", "max_attempts": 7}},
    }
    app = Celery("proj", set_as_current=False)
    app.config_from_object(SimpleNamespace(**settings), namespace=namespace)

    (job,) = (j for j in scheduler_for(app, store="memory://").jobs if j.name == "job")

    assert (job.overlap, job.max_attempts) == (Overlap.SKIP, 7)


def test_the_setting_wins_over_the_entry_option_by_option(app: Celery) -> None:
    inline = {"overlap": "skip", "max_attempts": 7}
    app.conf.anarchon_jobs = {"job": {"max_attempts": 2}}
    app.conf.beat_schedule = {"job": {"task": "t", "schedule": 5, "options": {"anarchon": inline}}}

    (job,) = scheduler_for(app, store="memory://").jobs

    assert (job.overlap, job.max_attempts) == (Overlap.SKIP, 2)
    assert inline == {"overlap": "skip", "max_attempts": 7}


def test_a_setting_may_speak_of_the_default_entry_and_of_one_that_is_left_out(app: Celery) -> None:
    app.conf.anarchon_jobs = {CLEANUP: {"max_attempts": 2}, "a": {"max_attempts": 2}}
    app.conf.beat_schedule = {"a": {"task": "t", "schedule": 5}}

    assert jobs_of(app, disabled=["a"]) == set()


def test_every_option_of_a_job_may_be_given(app: Celery) -> None:
    ours = {
        "jitter": "10ms",
        "max_late": "1m",
        "lease": "30s",
        "heartbeat": "5s",
        "catch_up": "1m",
        "timeout": "10m",
        "max_attempts": 2,
        "overlap": "skip",
        "history_limit": 10,
        "track": True,
        "start_within": "20m",
        "on_store_error": "run",
        "run_at_start": True,
    }
    assert set(ours) == set(JobOptions.__annotations__)
    app.conf.anarchon_jobs = {"job": ours}
    app.conf.beat_schedule = {"job": {"task": "t", "schedule": 5}}

    (job,) = scheduler_for(app, store="memory://").jobs

    assert job.track
    assert job.run_at_start
    assert (job.timeout, job.start_within) == (timedelta(minutes=10), timedelta(minutes=20))


# ---- runs that are followed to their end


def tracked(app: Celery, options: Any = None, **ours: Any) -> Job:
    app.conf.beat_schedule = {
        "job": {"task": "t", "schedule": 5, "options": {**(options or {}), "anarchon": ours}}
    }
    (job,) = scheduler_for(app, store="memory://").jobs
    return job


@pytest.mark.parametrize(
    ("namespace", "key"),
    [(None, "anarchon_track"), (None, "ANARCHON_TRACK"), ("CELERY", "CELERY_ANARCHON_TRACK")],
)
def test_all_entries_may_be_tracked_but_for_those_that_say_no(
    namespace: str | None, key: str
) -> None:
    entries = {
        "yes": {"task": "t", "schedule": 5},
        "no": {"task": "t", "schedule": 5, "options": {"anarchon": {"track": False}}},
    }
    schedule_key = {"anarchon_track": "beat_schedule", "ANARCHON_TRACK": "CELERYBEAT_SCHEDULE"}
    settings = {schedule_key.get(key, "CELERY_BEAT_SCHEDULE"): entries, key: True}
    app = Celery("proj", set_as_current=False)
    app.config_from_object(SimpleNamespace(**settings), namespace=namespace)

    jobs = {job.name: job.track for job in scheduler_for(app, store="memory://").jobs}

    assert (jobs["yes"], jobs["no"]) == (True, False)


@pytest.mark.parametrize(
    ("expires", "within"),
    [(60, 60), (7200.0, 7200), (0.5, 1), (None, 3600), ("next", 3600)],
    ids=repr,
)
def test_a_tracked_run_may_be_begun_until_its_message_expires(
    app: Celery, expires: Any, within: float
) -> None:
    job = tracked(app, {"expires": expires}, track=True, jitter=0)

    assert job.start_within == timedelta(seconds=within)


def test_until_when_it_may_be_begun_can_be_said_apart_from_that(app: Celery) -> None:
    job = tracked(app, {"expires": 60}, track=True, start_within="30s")

    assert job.start_within == timedelta(seconds=30)


def test_what_is_not_tracked_has_no_time_to_be_begun_in(app: Celery) -> None:
    assert tracked(app, {"expires": 60}).start_within is None


@pytest.mark.parametrize("everywhere", [True, False])
def test_a_tracked_entry_has_a_new_task_id_each_time(app: Celery, everywhere: bool) -> None:
    app.conf.anarchon_track = everywhere

    (problem,) = problems_of(
        app,
        task="t",
        schedule=5,
        options={"task_id": "fixed", "anarchon": {} if everywhere else {"track": True}},
    )

    assert "track: every message would have the same task_id" in problem
    assert "leave task_id out" in problem


def test_a_fixed_task_id_is_no_trouble_where_the_entry_is_not_tracked(app: Celery) -> None:
    app.conf.anarchon_track = True

    assert not tracked(app, {"task_id": "fixed"}, track=False).track


# ---- how late


@pytest.mark.parametrize("written", [crontab(0, 9), "0 9 * * *"], ids=repr)
def test_the_deadline_of_beat_bounds_how_late_a_crontab_may_run(app: Celery, written: Any) -> None:
    app.conf.beat_cron_starting_deadline = 1800
    app.conf.beat_schedule = {"job": {"task": "t", "schedule": written}}

    (job,) = scheduler_for(app, store="memory://").jobs

    assert job.catch_up == job.max_late == timedelta(minutes=30)


def test_the_deadline_of_beat_is_for_crontabs_only(app: Celery) -> None:
    app.conf.beat_cron_starting_deadline = 1800

    assert tracked(app).catch_up == timedelta(minutes=5)


def test_an_entry_may_be_caught_up_otherwise_than_by_the_deadline(app: Celery) -> None:
    app.conf.beat_cron_starting_deadline = 1800
    app.conf.beat_schedule = {"job": {"task": "t", "schedule": crontab(0, 9)}}
    app.conf.anarchon_jobs = {"job": {"catch_up": "1m"}}

    (job,) = scheduler_for(app, store="memory://").jobs

    assert job.catch_up == job.max_late == timedelta(minutes=1)


@pytest.mark.parametrize(
    ("deadline", "catch_up", "max_late"), [(0, 0, 1), (0.2, 0.2, 1), (7200, 3600, 3600)]
)
def test_a_deadline_may_be_none_at_all_and_reaches_no_further_than_a_worker_may_begin(
    app: Celery, deadline: float, catch_up: float, max_late: float
) -> None:
    app.conf.beat_cron_starting_deadline = deadline
    app.conf.anarchon_track = True
    app.conf.beat_schedule = {"job": {"task": "t", "schedule": crontab(0, 9)}}

    (job,) = scheduler_for(app, store="memory://").jobs

    assert (job.catch_up, job.max_late) == (
        timedelta(seconds=catch_up),
        timedelta(seconds=max_late),
    )


# ---- zones, and schedules that are asked


def test_an_entry_may_have_its_own_time_zone(app: Celery) -> None:
    app.conf.update(timezone="Europe/Athens")
    app.conf.beat_schedule = {
        "job": {
            "task": "t",
            "schedule": crontab(0, 9),
            "options": {"anarchon": {"timezone": "Asia/Tokyo"}},
        }
    }

    assert entry_of(app).schedule.canonical() == "cron 0 9 * * * and Asia/Tokyo"
    assert "timezone" not in entry_of(app).job


# ---- what is wrong


def test_a_wrong_option_of_ours_is_reported_with_the_other_problems(app: Celery) -> None:
    app.conf.beat_schedule = {
        "one": {"task": "t", "schedule": 5, "options": {"anarchon": {"jiter": 1}}},
        "two": {"task": "t", "schedule": "5"},
    }

    with pytest.raises(InvalidEntries) as caught:
        scheduler_for(app, store="memory://")

    assert {(error.job, error.option) for error in caught.value.errors} == {
        ("one", "jiter"),
        ("two", "schedule"),
    }


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"anarchon_jobs": ["job"]}, "anarchon_jobs: ['job'] is not a mapping"),
        ({"anarchon_jobs": {"job": 5}}, "anarchon_jobs: {'job': 5} is not a mapping"),
        (
            {"anarchon_jobs": {"jbo": {}}},
            "job 'jbo': anarchon_jobs: there is no such entry; did you",
        ),
        ({"anarchon_jobs": {"job": {"jiter": 1}}}, "job 'job': jiter: there is no such option"),
        ({"anarchon_track": "yes"}, "anarchon_track: 'yes' is neither yes nor no"),
        (
            {"beat_cron_starting_deadline": "5m"},
            "beat_cron_starting_deadline: '5m' is not a number",
        ),
        ({"beat_cron_starting_deadline": -1}, "beat_cron_starting_deadline: -1 must be"),
    ],
    ids=repr,
)
def test_a_bad_setting_is_told_once_with_what_to_write(
    app: Celery, settings: dict[str, Any], said: str
) -> None:
    app.conf.update(settings)
    app.conf.beat_schedule = {
        "job": {"task": "t", "schedule": crontab(0, 9)},
        "other": {"task": "t", "schedule": crontab(0, 9)},
    }

    with pytest.raises(InvalidEntries) as caught:
        scheduler_for(app, store="memory://")

    (problem,) = caught.value.errors
    assert str(problem).startswith(said)
    assert problem.fix
