"""A schedule that is written beside its task."""

import functools
import logging
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery import Celery, Task, _state
from celery.schedules import crontab

from anarchon import ConfigurationError, DuplicateJob, Overlap
from anarchon_celery import InvalidEntries, periodic, scheduler_for
from anarchon_celery.entries import Entry, load, read_entries
from tests.celery.runs import entry_of, jobs_of

#: Celery 5.6 cannot be told what its tasks take.
AnyTask: Any = Task

ROOT = Path(__file__).resolve().parent.parent.parent


def names_of(app: Celery) -> set[str]:
    load(app)
    entries, problems = read_entries(app)
    assert problems == []
    return {entry.name for entry in entries}


def wrong_with(app: Celery) -> list[ConfigurationError]:
    with pytest.raises(InvalidEntries) as caught:
        scheduler_for(app, store="memory://")
    return list(caught.value.errors)


# ---- where it stands


def test_it_may_stand_above_the_task(app: Celery) -> None:
    @periodic("10s")
    @app.task(shared=False, name="proj.above")
    def above() -> int:
        return 1

    assert entry_of(app, "proj.above").task == "proj.above"
    assert above() == 1


def test_it_may_stand_below_the_task(app: Celery) -> None:
    @app.task(shared=False, name="proj.below")
    @periodic("10s")
    def below() -> int:
        return 1

    assert entry_of(app, "proj.below").task == "proj.below"
    assert below() == 1


def test_the_function_of_a_bound_task_that_retries_is_found(app: Celery) -> None:
    @app.task(shared=False, name="proj.bound", bind=True, autoretry_for=(ValueError,), base=Task)
    @periodic("10s")
    def bound(self: Any) -> None: ...

    assert names_of(app) == {"proj.bound"}


def test_a_decorator_between_the_two_is_looked_through(app: Celery) -> None:
    def logged(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any) -> Any:
            return function(*args)

        return wrapper

    @app.task(shared=False, name="proj.wrapped")
    @logged
    @periodic("10s")
    def wrapped() -> None: ...

    assert names_of(app) == {"proj.wrapped"}


def test_a_task_without_a_name_has_the_one_that_celery_gives_it(app: Celery) -> None:
    @periodic("10s")
    @app.task(shared=False)
    def unnamed() -> None: ...

    assert names_of(app) == {f"{__name__}.unnamed"}


def test_a_task_that_is_an_object_or_a_class_may_be_periodic(app: Celery) -> None:
    class Own(AnyTask):  # type: ignore[misc]
        name = "proj.own"

    @periodic("10s")
    class Other(AnyTask):  # type: ignore[misc]
        name = "proj.other"

    periodic("10s")(app.register_task(Own()))
    app.register_task(Other())

    assert names_of(app) == {"proj.own", "proj.other"}


def test_to_be_periodic_does_not_make_the_task_before_its_app_is_set_up(app: Celery) -> None:
    made = []

    class Noticing(AnyTask):  # type: ignore[misc]
        @classmethod
        def on_bound(cls, app: Celery) -> None:
            made.append(cls.__name__)

    @periodic("10s")
    @app.task(shared=False, base=Noticing)
    def late() -> None: ...

    assert made == []
    assert names_of(app) == {f"{__name__}.late"}


def test_a_task_that_is_not_shared_is_periodic_in_its_own_app_only(app: Celery) -> None:
    other = Celery("other", broker="memory://", set_as_current=False)
    other.conf.result_expires = None

    @periodic("10s")
    @app.task(shared=False, name="proj.above")
    def above() -> None: ...

    @app.task(shared=False, name="proj.below")
    @periodic("10s")
    def below() -> None: ...

    assert names_of(other) == set()
    assert names_of(app) == {"proj.above", "proj.below"}


@pytest.mark.parametrize(
    "order",
    [
        "@periodic('10s')\n@shared_task",
        "@shared_task\n@periodic('10s')",
        "@periodic('10s')\n@elsewhere.task",
        "@elsewhere.task\n@periodic('10s')",
    ],
)
def test_a_shared_task_may_be_periodic_whenever_it_is_imported(tmp_path: Path, order: str) -> None:
    (tmp_path / "library.py").write_text(
        "from celery import Celery, shared_task\n"
        "from anarchon_celery import periodic\n"
        "elsewhere = Celery('elsewhere', broker='memory://', set_as_current=False)\n"
        f"{order}\ndef shared(): ...\n"
    )
    script = (
        "from celery import Celery, current_app\n"
        "from anarchon_celery import scheduler_for\n"
        "def app_named(name):\n"
        "    app = Celery(name, broker='memory://')\n"
        "    app.conf.result_expires = None\n"
        "    return app\n"
        "{}\n"
        "print([job.name for job in scheduler_for(app, store='memory://').jobs])\n"
        "print(current_app.main)\n"
    )
    for steps in (
        "import library; app = app_named('proj'); other = app_named('other')",
        "app = app_named('proj'); other = app_named('other'); import library",
        "import library; library.elsewhere.finalize(); app = app_named('proj');"
        " other = app_named('other')",
    ):
        done = subprocess.run(
            [sys.executable, "-c", script.format(steps)],
            cwd=tmp_path,
            env={"PYTHONPATH": f"{tmp_path}:{ROOT}:{ROOT / 'integrations'}"},
            capture_output=True,
            text=True,
        )
        assert done.stdout.split("\n")[:2] == ["['library.shared']", "other"], done.stderr


# ---- what it says


def read(app: Celery, *schedule: Any, **options: Any) -> Entry:
    @periodic(*schedule, **options)
    @app.task(shared=False, name="proj.task")
    def task() -> None: ...

    return entry_of(app, options.get("name", "proj.task"))


def test_a_schedule_may_be_whatever_an_entry_may_have(app: Celery) -> None:
    assert read(app, crontab(0, 9)).schedule.canonical() == "cron 0 9 * * * and UTC"


@pytest.mark.parametrize("zone", ["Asia/Tokyo", ZoneInfo("Asia/Tokyo")], ids=repr)
def test_a_cron_may_have_a_zone(app: Celery, zone: Any) -> None:
    assert "Asia/Tokyo" in read(app, "0 8 * * *", tz=zone).schedule.canonical()


def test_a_name_arguments_and_options_may_be_given(app: Celery) -> None:
    entry = read(
        app,
        timedelta(minutes=5),
        name="often",
        args=(1,),
        kwargs={"who": "me"},
        options={"queue": "aside", "expires": 10},
    )

    assert (entry.name, entry.task) == ("often", "proj.task")
    assert (entry.args, entry.kwargs) == ((1,), {"who": "me"})
    assert entry.options == {"queue": "aside", "expires": 10}


def test_options_of_the_job_may_be_given(app: Celery) -> None:
    read(app, "5m", overlap="skip", max_attempts=7)

    (job,) = scheduler_for(app, store="memory://").jobs
    assert (job.overlap, job.max_attempts) == (Overlap.SKIP, 7)


def test_a_task_may_be_periodic_more_than_once(app: Celery) -> None:
    @periodic("0 8 * * *", name="early")
    @periodic("0 20 * * *", name="late")
    @app.task(shared=False, name="proj.above")
    def above() -> None: ...

    @app.task(shared=False, name="proj.below")
    @periodic("0 8 * * *", name="below early")
    @periodic("0 20 * * *", name="below late")
    def below() -> None: ...

    assert names_of(app) == {"early", "late", "below early", "below late"}


def test_settings_speak_of_it_as_of_any_entry(app: Celery) -> None:
    read(app, "5m")
    app.conf.anarchon_jobs = {"proj.task": {"max_attempts": 2}}
    (job,) = scheduler_for(app, store="memory://").jobs
    assert job.max_attempts == 2

    app.conf.anarchon_disabled = ["proj.task"]
    assert jobs_of(app) == set()


# ---- what is wrong


def test_a_name_that_is_taken_is_an_error_with_what_to_write(app: Celery) -> None:
    app.conf.beat_schedule = {"proj.task": {"task": "t", "schedule": 5}}

    @periodic("5m")
    @periodic("6m")
    @app.task(shared=False, name="proj.task")
    def task() -> None: ...

    for error in (errors := wrong_with(app)):
        assert isinstance(error, DuplicateJob)
        assert (error.job, error.option) == ("proj.task", "name")
        assert "periodic(..., name=...)" in str(error)
    assert len(errors) == 2


def test_two_that_are_named_by_one_task_are_an_error(app: Celery) -> None:
    @periodic("5m")
    @periodic("6m")
    @app.task(shared=False, name="proj.task")
    def task() -> None: ...

    (error,) = wrong_with(app)
    assert "another periodic()" in str(error)


def test_a_bad_schedule_is_told_with_what_is_wrong_elsewhere(app: Celery) -> None:
    app.conf.beat_schedule = {"job": {"task": None, "schedule": 5}}

    @periodic("often", tz=5, lease="long")  # type: ignore[arg-type]
    @app.task(shared=False, name="proj.task")
    def task() -> None: ...

    assert {(error.job, error.option) for error in wrong_with(app)} == {
        ("job", "task"),
        ("proj.task", "timezone"),
    }


def test_an_option_that_there_is_not_is_told_where_it_is_written() -> None:
    with pytest.raises(ConfigurationError, match="did you mean overlap"):
        periodic("5m", overlp="skip")


def test_without_parentheses_it_is_refused_and_not_passed_over() -> None:
    def task() -> None: ...

    with pytest.raises(ConfigurationError, match=r'write @periodic\("10s"\)'):
        periodic(task)


def test_options_that_are_no_mapping_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="is not a mapping of names"):
        periodic("10s", options=["x"])  # type: ignore[arg-type]


@pytest.mark.parametrize("what", [5, "proj.task", None, print], ids=repr)
def test_what_is_neither_task_nor_function_is_refused(what: Any) -> None:
    with pytest.raises(ConfigurationError, match="neither a task nor a function"):
        periodic("5m")(what)


def forgotten() -> None: ...


def test_a_function_that_is_no_task_is_named(
    app: Celery, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anarchon_celery.beside_tasks._on_functions", [])
    # apps that other tests have left may yet make a task of it
    monkeypatch.setattr(_state, "_apps", {app})
    periodic("5m")(forgotten)
    app.conf.result_expires = None

    with caplog.at_level(logging.WARNING, logger="anarchon.celery"):
        assert names_of(app) == set()

    (record,) = caplog.records
    assert f"{__name__}.forgotten is periodic, and no task" in record.getMessage()
