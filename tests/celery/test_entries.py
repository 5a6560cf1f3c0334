"""Which entries a project has, and what is said of bad ones."""

import copy
import logging
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from celery.beat import BeatLazyFunc, ScheduleEntry
from celery.schedules import crontab, schedule

from anarchon import ConfigurationError, Polled
from anarchon_celery import InvalidEntries, scheduler_for
from anarchon_celery.entries import CLEANUP, load, read_entries
from tests.celery.runs import entry_of, jobs_of, problems_of

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.WARNING, logger="anarchon.celery"):
        yield caplog


# ---- where entries come from


def test_every_key_of_an_entry_is_read(app: Celery) -> None:
    lazy = BeatLazyFunc(id, 1)
    app.conf.beat_schedule = {
        "job": {
            "task": "proj.note",
            "schedule": crontab(0, 9),
            "args": [1, lazy],
            "kwargs": {"who": "me"},
            "options": {"queue": "aside", "priority": 3},
        }
    }

    entry = entry_of(app)

    assert entry.schedule.canonical() == "cron 0 9 * * * and UTC"
    assert (entry.task, entry.args, entry.kwargs) == ("proj.note", (1, lazy), {"who": "me"})
    assert entry.options == {"queue": "aside", "priority": 3}


@pytest.mark.parametrize("empty", [None, (), []])
def test_args_kwargs_and_options_may_be_empty(app: Celery, empty: Any) -> None:
    app.conf.beat_schedule = {
        "job": {"task": "t", "schedule": 5, "args": empty, "kwargs": None, "options": None}
    }

    entry = entry_of(app)

    assert (entry.args, entry.kwargs, entry.options) == ((), {}, {})


def test_a_schedule_entry_object_is_an_entry(app: Celery, log: pytest.LogCaptureFixture) -> None:
    written = ScheduleEntry("other", "proj.note", schedule=schedule(5), args=(1,), app=app)
    app.conf.beat_schedule = {"job": written}

    entry = entry_of(app)

    assert (entry.name, entry.task, entry.args) == ("job", "proj.note", (1,))
    assert log.records == []


@pytest.mark.parametrize(
    ("namespace", "settings"),
    [
        (None, {"beat_schedule": ...}),
        (None, {"CELERYBEAT_SCHEDULE": ...}),
        ("CELERY", {"CELERY_BEAT_SCHEDULE": ...}),
    ],
)
def test_all_three_spellings_of_the_settings_are_read(
    namespace: str | None, settings: dict[str, Any]
) -> None:
    entries = {"job": {"task": "t", "schedule": 5}}
    app = Celery("proj", set_as_current=False)
    app.config_from_object(SimpleNamespace(**dict.fromkeys(settings, entries)), namespace=namespace)

    assert "job" in jobs_of(app)


def test_add_periodic_task_is_read_before_and_after_configuration(app: Celery) -> None:
    fresh = Celery("proj", broker="memory://", set_as_current=False)
    fresh.add_periodic_task(5, fresh.signature("t", (1,)), args=(9,), name="early", expires=7)
    load(fresh)
    fresh.add_periodic_task(5, fresh.signature("t", (1,)), name="late")

    assert entry_of(fresh, "early").args == (9, 1)
    assert entry_of(fresh, "early").options == {"expires": 7}
    assert entry_of(fresh, "late").args == (1,)


def test_handlers_of_configuration_and_finalization_may_add_entries() -> None:
    app = Celery("proj", broker="memory://", set_as_current=False)

    def configured(sender: Celery, **_: Any) -> None:
        sender.add_periodic_task(5, sender.signature("t"), name="configured")

    def finalized(sender: Celery, **_: Any) -> None:
        sender.add_periodic_task(5, sender.signature("t"), name="finalized")

    app.on_after_configure.connect(configured, weak=False)
    app.on_after_finalize.connect(finalized, weak=False)

    assert jobs_of(app) >= {"configured", "finalized"}


def test_the_modules_of_tasks_are_imported_first(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text(
        "from celery import current_app\n"
        "current_app.add_periodic_task(5, current_app.signature('t'), name='imported')\n"
    )
    script = (
        "from celery import Celery\n"
        "from anarchon_celery import scheduler_for\n"
        "app = Celery('proj', broker='memory://', include=['late'])\n"
        "print(sorted(job.name for job in scheduler_for(app, store='memory://').jobs))\n"
    )

    assert "imported" in _printed(script, tmp_path)


def test_a_django_project_is_read_by_its_own_settings(tmp_path: Path) -> None:
    pytest.importorskip("django")
    (tmp_path / "site_settings.py").write_text(
        "from celery.schedules import crontab\n"
        "SECRET_KEY = 'x'\nINSTALLED_APPS = ['shop']\nUSE_TZ = True\nTIME_ZONE = 'Asia/Tokyo'\n"
        "CELERY_BROKER_URL = 'memory://'\n"
        "CELERY_ANARCHON_STORE = 'memory://'\nCELERY_ANARCHON_NAMESPACE = 'shop'\n"
        "CELERY_BEAT_SCHEDULE = {'daily': {'task': 'shop.tasks.sell', 'schedule': crontab(0, 9)}}\n"
    )
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").touch()
    (tmp_path / "shop" / "tasks.py").write_text(
        "from celery import shared_task\n\n@shared_task\ndef sell():\n    pass\n"
    )
    script = (
        "import os\n"
        "os.environ['DJANGO_SETTINGS_MODULE'] = 'site_settings'\n"
        "from celery import Celery\n"
        "from anarchon_celery import scheduler_for\n"
        "app = Celery('site')\n"
        "app.config_from_object('django.conf:settings', namespace='CELERY')\n"
        "app.autodiscover_tasks()\n"
        "scheduler = scheduler_for(app)\n"
        "jobs = {job.name: job for job in scheduler.jobs}\n"
        "print(scheduler.namespace, scheduler.store, jobs['daily'].schedule.canonical(),"
        " 'shop.tasks.sell' in app.tasks)\n"
    )

    assert _printed(script, tmp_path) == "shop memory:// cron 0 9 * * * and Asia/Tokyo True"


def _printed(script: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env={"PYTHONPATH": f"{folder}:{ROOT}:{ROOT / 'integrations'}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_old_results_are_cleaned_up_where_the_backend_does_not(app: Celery) -> None:
    app.conf.result_expires = timedelta(days=1)
    app.conf.beat_schedule = {}

    assert jobs_of(app) == {CLEANUP}
    entry = entry_of(app, CLEANUP)
    assert entry.schedule.canonical() == "cron 0 4 * * * and UTC"
    assert entry.options == {"expires": 12 * 3600}


def test_a_backend_that_expires_results_itself_needs_no_cleanup(app: Celery) -> None:
    app.conf.result_expires = timedelta(days=1)
    app.conf.update(result_backend="redis://localhost:1")

    assert jobs_of(app) == set()


def test_the_users_own_cleanup_entry_stays(app: Celery) -> None:
    app.conf.result_expires = timedelta(days=1)
    app.conf.beat_schedule = {CLEANUP: {"task": CLEANUP, "schedule": 3600}}

    assert entry_of(app, CLEANUP).schedule.canonical().startswith("every 3600000ms")


def test_reading_changes_nothing_of_the_users(app: Celery) -> None:
    written = {
        "job": {
            "task": "t",
            "schedule": crontab(0, 9),
            "args": [1],
            "options": {"headers": {"a": 1}, "anarchon": {"max_attempts": 5}},
        }
    }
    before = copy.deepcopy(written)
    app.conf.beat_schedule = written

    scheduler_for(app, store="memory://")

    assert written == before
    assert app.conf.beat_schedule is written


@pytest.mark.parametrize("headers", [None, {}, {"a": 1}])
def test_headers_may_be_none(app: Celery, headers: Any) -> None:
    app.conf.beat_schedule = {"job": {"task": "t", "schedule": 5, "options": {"headers": headers}}}

    assert entry_of(app).options == {"headers": headers}


@pytest.mark.parametrize(
    "expires",
    [None, 60, 0.5, datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00+00:00", "next"],
    ids=repr,
)
def test_expires_may_be_seconds_a_moment_or_the_next_slot(app: Celery, expires: Any) -> None:
    app.conf.beat_schedule = {"job": {"task": "t", "schedule": 5, "options": {"expires": expires}}}

    assert entry_of(app).options == {"expires": expires}


def test_the_options_of_a_message_are_left_as_they_are(app: Celery) -> None:
    options = {
        "queue": "q",
        "exchange": "x",
        "routing_key": "r",
        "priority": 3,
        "serializer": "json",
        "link": None,
        "time_limit": 5,
        "something_of_a_base_class": [1],
    }
    app.conf.beat_schedule = {"job": {"task": "t", "schedule": 5, "options": options}}

    assert entry_of(app).options == options


# ---- entries that decide for themselves


class Moody(ScheduleEntry):
    def is_due(self) -> Any:
        return super().is_due()


def test_an_entry_class_with_a_mind_of_its_own_is_asked(app: Celery) -> None:
    written = Moody("job", "proj.note", schedule=schedule(5), args=(1,), app=app)
    app.conf.beat_schedule = {"job": written}

    entry = entry_of(app)

    assert isinstance(entry.schedule, Polled)
    assert (entry.task, entry.args) == ("proj.note", (1,))
    assert jobs_of(app) == {"job"}


# ---- leaving out


@pytest.mark.parametrize("written", ["entry", "setting"])
def test_an_entry_that_is_not_enabled_is_left_out_and_not_even_checked(
    app: Celery, written: str
) -> None:
    off: dict[str, Any] = {"enabled": False}
    if written == "setting":
        app.conf.anarchon_jobs = {"a": off}
    app.conf.beat_schedule = {
        "a": {
            "task": "t",
            "schedule": "bad",
            "options": {"anarchon": off if written == "entry" else {}},
        },
        "b": {"task": "t", "schedule": 5, "options": {"anarchon": {"enabled": True}}},
    }

    assert jobs_of(app) == {"b"}


def test_disabled_entries_are_left_out_and_not_even_checked(app: Celery) -> None:
    app.conf.anarchon_disabled = ["b"]
    app.conf.beat_schedule = {
        "a": {"task": "t", "schedule": "bad"},
        "b": {"task": "t", "schedule": "bad"},
        "c": {"task": "t", "schedule": 5},
    }

    assert jobs_of(app, disabled=["a"]) == {"c"}


def test_the_default_entry_can_be_left_out(app: Celery) -> None:
    app.conf.result_expires = timedelta(days=1)

    assert jobs_of(app, disabled=[CLEANUP]) == set()


def test_leaving_out_an_entry_that_is_not_there_is_refused(app: Celery) -> None:
    app.conf.beat_schedule = {"nightly": {"task": "t", "schedule": 5}}

    with pytest.raises(ValueError, match="did you mean 'nightly'"):
        scheduler_for(app, store="memory://", disabled=["nightlly"])


def test_settings_may_leave_out_an_entry_that_another_deployment_has(
    app: Celery, log: pytest.LogCaptureFixture
) -> None:
    app.conf.anarchon_disabled = ["elsewhere"]
    app.conf.beat_schedule = {"here": {"task": "t", "schedule": 5}}

    assert jobs_of(app) == {"here"}
    assert "elsewhere" in log.text


def test_a_text_instead_of_a_list_of_names_is_refused(app: Celery) -> None:
    app.conf.anarchon_disabled = "nightly"

    with pytest.raises(ValueError, match="anarchon_disabled"):
        scheduler_for(app, store="memory://")


# ---- bad entries


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"one_off": True}, "it belongs to django-celery-beat; anarchon_disabled"),
        ({"enabled": False}, 'inside options: "options": {"anarchon": {"enabled": ...}}'),
        ({"track": True}, 'inside options: "options": {"anarchon": {"track": ...}}'),
        ({"anarchon": {"track": True}}, 'inside options: "options": {"anarchon": {...}}'),
        ({"options": {"anarchon": {"queue": "q"}}}, 'of the message: "options": {"queue": ...'),
        ({"expires": 60}, 'write it inside options: "options": {"expires": ...}'),
        ({"queue": "q"}, 'write it inside options: "options": {"queue": ...}'),
        ({"schedul": 5}, "did you mean schedule?"),
        ({"whatever": 5}, "use task, schedule, args, kwargs, options, relative"),
        ({"task": None}, "task: there is no task"),
        ({"task": SimpleNamespace(name="proj.note")}, 'write "proj.note"'),
        ({"task": 7}, "7 is not the name of a task"),
        ({"schedule": None}, "schedule: there is no schedule"),
        ({"schedule": "5"}, "schedule: '5' is not a duration"),
        ({"args": "abc"}, "args: 'abc' is not a list"),
        ({"args": 5}, "args: 5 is not a list"),
        ({"kwargs": [1]}, "kwargs: [1] is not a mapping"),
        ({"kwargs": {1: 2}}, "kwargs: {1: 2} is not a mapping of names"),
        ({"options": "q"}, "options: 'q' is not a mapping"),
        ({"options": {"args": [1]}}, "options: args is no option; write it beside options"),
        ({"options": {"producer": 1}}, "options: producer is no option; leave it out"),
        ({"options": {"headers": [1]}}, "headers: [1] is not a mapping"),
        ({"options": {"anarchon": 5}}, "anarchon: 5 is not a mapping"),
        ({"options": {"anarchon": {"jiter": 5}}}, "jiter: there is no such option; did you"),
        ({"options": {"anarchon": {"lease": "x"}}}, "lease: 'x' is not a duration"),
        (
            {"options": {"anarchon": {"tz": "UTC"}}},
            "tz: there is no such option; did you mean time",
        ),
        (
            {"options": {"anarchon": {"enabld": 1}}},
            "enabld: there is no such option; did you mean e",
        ),
        ({"options": {"anarchon": {"enabled": "no"}}}, "enabled: 'no' is neither yes nor no"),
        ({"options": {"anarchon": {"timezone": 5}}}, "timezone: 5 is no time zone"),
        ({"options": {"anarchon": {"timezone": "UTC"}}}, "timezone: every 5s has no time zone"),
        ({"options": {"anarchon": {"start_within": 5}}}, "start_within: it is about a published"),
        ({"options": {"expires": "soon"}}, "expires: 'soon' is no moment; write seconds"),
        ({"options": {"expires": timedelta(1)}}, "is no moment; write seconds"),
        ({"options": {"expires": True}}, "expires: True is no moment"),
        ({"options": {"expires": 0}}, "expires: with 0 seconds no worker could"),
        ({"options": {"expires": float("nan")}}, "expires: with nan seconds"),
    ],
    ids=repr,
)
def test_a_bad_entry_is_named_with_what_to_write(
    app: Celery, wrong: dict[str, Any], said: str
) -> None:
    (problem,) = problems_of(app, **{"task": "t", "schedule": 5, **wrong})

    assert problem.startswith("job 'job': ")
    assert said in problem


@pytest.mark.parametrize("value", [5, None, "t", ["task"]], ids=repr)
def test_what_is_no_mapping_is_no_entry(app: Celery, value: Any) -> None:
    app.conf.beat_schedule = {"job": value}

    with pytest.raises(InvalidEntries, match="is no entry"):
        scheduler_for(app, store="memory://")


def test_a_name_with_a_memory_address_is_refused_as_each_instance_has_another(app: Celery) -> None:
    app.add_periodic_task(5, app.signature("t", (object(),)))

    with pytest.raises(InvalidEntries, match=r"add_periodic_task\(\.\.\., name=\.\.\.\)"):
        scheduler_for(app, store="memory://")


def test_a_name_that_is_no_text_is_refused(app: Celery) -> None:
    app.conf.beat_schedule = {5: {"task": "t", "schedule": 5}}

    with pytest.raises(InvalidEntries, match="the name 5 is not text"):
        scheduler_for(app, store="memory://")


@pytest.mark.parametrize("written", [[{"task": "t"}], None])
@pytest.mark.parametrize("disabled", [(), ("job",)])
def test_a_schedule_that_is_no_mapping_is_refused(
    app: Celery, written: Any, disabled: tuple[str, ...]
) -> None:
    app.conf.beat_schedule = written

    with pytest.raises(ConfigurationError, match="is not a mapping") as caught:
        scheduler_for(app, store="memory://", disabled=disabled)

    assert caught.value.option == "beat_schedule"


def test_all_problems_of_all_entries_are_told_at_once(app: Celery) -> None:
    app.conf.beat_schedule = {
        "good": {"task": "t", "schedule": 5},
        "bad": {"task": None, "schedule": "x", "enabled": True},
        "worse": {"schedule": 0, "task": "t"},
    }

    with pytest.raises(InvalidEntries) as caught:
        scheduler_for(app, store="memory://")

    assert [error.job for error in caught.value.errors] == ["bad", "bad", "bad", "worse"]
    assert len(str(caught.value).splitlines()) == 5


# ---- what is said and goes on


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"track": True}, 'write "options": {"anarchon": {"track": ...}}'),
        ({"overlap": "skip"}, 'write "options": {"anarchon": {"overlap": ...}}'),
        ({"anarcon": {"track": True}}, 'did you mean "anarchon"?'),
    ],
)
def test_an_option_of_ours_among_those_of_the_message_is_noticed(
    app: Celery, log: pytest.LogCaptureFixture, options: dict[str, Any], said: str
) -> None:
    app.conf.beat_schedule = {"a": {"task": "proj.note", "schedule": 5, "options": options}}

    scheduler_for(app, store="memory://")

    (told,) = [message for message in log.messages if "goes to the message" in message]
    assert told.startswith("entry 'a': ")
    assert said in told


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ({"last_run_at": datetime(2026, 1, 1, tzinfo=UTC)}, "last_run_at is ignored"),
        ({"total_run_count": 5}, "total_run_count is ignored"),
        ({"options": {"task_id": "fixed"}}, "every message gets the same task_id"),
        ({"schedule": 1 / 3}, "rounded to 333ms"),
    ],
    ids=repr,
)
def test_what_means_something_else_here_is_said_once(
    app: Celery, log: pytest.LogCaptureFixture, field: dict[str, Any], said: str
) -> None:
    app.conf.beat_schedule = {"job": {"task": "t", "schedule": 5, **field}}

    scheduler_for(app, store="memory://")

    (record,) = log.records
    assert "entry 'job'" in record.getMessage()
    assert said in record.getMessage()


def test_a_task_that_only_workers_know_is_accepted(app: Celery) -> None:
    app.conf.beat_schedule = {"job": {"task": "nobody.knows", "schedule": 5}}

    load(app)

    assert read_entries(app)[1] == []
