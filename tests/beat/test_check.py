"""`check`: all that is wrong is told at once, and nothing is started or changed."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from anarchon import Scheduler
from tests.beat.conftest import Beat, Process
from tests.programs import Program

PROJECT = """
from datetime import timedelta

from celery import Celery
from celery.schedules import crontab

from anarchon_celery import install, periodic

app = Celery({name!r}, broker={broker!r})
app.conf.result_expires = None
app.conf.anarchon_store = {store!r}
app.conf.beat_schedule = {{{entries}}}

@app.task(name="shop.rates")
def rates():
    pass

{more}
"""
#: An entry of which there is nothing to say but what differs for all.
SOUND = """
    "close": {"task": "shop.rates", "schedule": crontab(hour=18, minute=0)},
"""


@dataclass(frozen=True)
class Said:
    """What a check said, and its exit code."""

    code: int
    lines: list[str]

    def of(self, level: str) -> list[str]:
        return [line for line in self.lines if line.startswith(f"{level}: ")]


Check = Callable[..., Said]


@pytest.fixture
def check(tmp_path: Path, start: Callable[..., Process]) -> Check:
    """Check a project of these entries, in a process of its own."""

    def said(
        entries: str = SOUND,
        *options: str,
        more: str = "",
        name: str | None = "shop",
        broker: str = "memory://",
        store: str | None = "sqlite:///jobs.db",
        before: tuple[str, ...] = (),
    ) -> Said:
        text = PROJECT.format(name=name, broker=broker, store=store, entries=entries, more=more)
        (tmp_path / "proj.py").write_text(text)
        process = start("-A", "proj", *before, "check", *(options or ("--offline",)))
        code = process.end()
        return Said(code, process.output.splitlines())

    return said


# ---------------------------------------------------------------- all is well


def test_a_sound_project_exits_with_zero_and_leaves_nothing_behind(
    check: Check, tmp_path: Path
) -> None:
    told = check(SOUND, "--json")

    assert told.code == 0
    found = json.loads("\n".join(told.lines))
    assert (found["version"], found["app"], found["namespace"]) == (
        "anarchon.check/1",
        "proj",
        "shop",
    )
    assert (found["jobs"], found["workers"]) == (1, 0)
    assert found["server"].startswith("SQLite 3.")
    assert {each["level"] for each in found["findings"]} == {"note"}
    assert {name for name in os.listdir(tmp_path) if "db" in name} == set()


def test_the_last_line_sums_up(check: Check, tmp_path: Path) -> None:
    told = check()

    assert told.lines[-1] == (
        f"1 job in namespace 'shop' on sqlite:///{tmp_path}/jobs.db: no errors, no warnings, 1 note"
    )


def test_nobody_is_told_that_a_beat_begins(check: Check, tmp_path: Path) -> None:
    begun = (
        "from celery.signals import beat_init\n"
        "@beat_init.connect(weak=False)\n"
        "def begin(**_):\n    open('begun', 'w')\n"
    )

    assert check(more=begun).code == 0
    assert not (tmp_path / "begun").exists()


# ---------------------------------------------------------------- mistakes


def test_everything_wrong_is_told_at_once_each_with_what_to_write_instead(check: Check) -> None:
    told = check(
        """
        "a": {"task": "shop.rates", "schedule": -1},
        "b": {"task": "shop.rates", "schedule": 60, "expires": 4},
        "c": {"task": "shop.rates", "schedule": 60, "options": {"anarchon": {"lease": "soon"}}},
        "d": {"task": rates, "schedule": 60} if "rates" in globals() else {"schedule": 60},
        "e": {"task": "shop.rate", "schedule": 60},
        """,
        broker="nowhere://",
        store="http://x",
        more="app.conf.beat_scheduler = 'django_celery_beat.schedulers:DatabaseScheduler'",
    )

    assert told.code == 2
    assert [line.partition("; ")[0] for line in told.of("error")] == [
        "error: the entries of beat_scheduler django_celery_beat.schedulers:DatabaseScheduler live"
        " elsewhere, and anarchon-beat reads beat_schedule only",
        "error: store (anarchon_store): no backend answers to http://",
        "error: broker_url: No such transport: nowhere",
        "error: job 'a': schedule: an interval of -1s, which is always due",
        "error: job 'b': an entry has no key 'expires'",
        "error: job 'd': task: there is no task",
        "error: job 'c': lease: 'soon' is not a duration",
    ]
    assert "did you mean 'shop.rates'?" in told.of("warning")[0]


def test_a_date_that_no_month_has_is_told_with_its_place(check: Check) -> None:
    """Celery 5.6 accepts it; there the entry is named (`test_check_servers`)."""
    told = check(
        '"x": {"task": "shop.rates", "schedule": crontab(day_of_month=30, month_of_year=2)}'
    )

    assert told.code == 2
    (line,) = told.lines
    assert line.startswith("anarchon-beat: -A proj: ValueError: ")
    assert "(proj.py, line 12)" in line


def test_an_option_for_an_entry_that_is_not_there_is_told(check: Check) -> None:
    told = check(more="app.conf.anarchon_jobs = {'closing': {'overlap': 'skip'}}")

    assert told.code == 2
    assert told.of("error") == [
        "error: job 'closing': anarchon_jobs: there is no such entry; did you mean 'close'?"
    ]


def test_a_handler_without_whose_entries_celery_would_go_on_is_told(check: Check) -> None:
    told = check(more="@app.on_after_finalize.connect\ndef add(sender, **_):\n    1 / 0")

    assert told.code == 1
    assert [line.partition(" (")[0] for line in told.of("warning")] == [
        "warning: a handler of a signal has failed: ZeroDivisionError: division by zero"
    ]


def test_a_missing_app_is_told_as_by_every_command(beat: Beat) -> None:
    told = beat("check")

    assert (told.code, told.out) == (2, "")
    assert "-A module:name" in told.err


def test_a_setting_that_only_workers_read_is_checked_too(check: Check) -> None:
    told = check(more="app.conf.anarchon_embedded = 'no'")

    assert told.code == 2
    assert told.of("error") == [
        "error: anarchon_embedded: 'no' is neither yes nor no; write True or False"
    ]


# ---------------------------------------------------------------- doubts


def test_a_task_that_is_not_known_is_a_doubt_with_the_name_that_may_be_meant(check: Check) -> None:
    told = check(
        '"e": {"task": "shop.rate", "schedule": 60}, "f": {"task": "else", "schedule": 60}'
    )

    assert told.code == 1
    assert told.of("warning") == [
        "warning: job 'e': task: 'shop.rate' is not known here, and no worker was there to be"
        " asked; did you mean 'shop.rates'?",
        "warning: job 'f': task: 'else' is not known here, and no worker was there to be asked;"
        " import its module where the app is made, so that it is known here too",
    ]


TRACKED = """
    "t": {"task": "shop.rates", "schedule": 60, "options": {"anarchon": {"track": True}}},
"""


def test_a_tracked_job_of_a_project_that_does_not_connect_its_workers_is_a_doubt(
    check: Check,
) -> None:
    told = check(TRACKED)

    assert told.code == 1
    assert told.of("warning") == [
        "warning: job 't': track: no worker answered, and the project does not connect its workers"
        " here; call anarchon_celery.install(app) where the app is made"
    ]


def test_a_tracked_job_of_a_project_that_connects_its_workers_is_none(check: Check) -> None:
    told = check(TRACKED, more="install(app)")

    assert (told.code, told.of("warning")) == (0, [])


def test_an_app_without_a_name_is_a_doubt_unless_the_namespace_is_named(check: Check) -> None:
    nameless = check(name=None)
    named = check(name=None, before=("--namespace", "shop"))
    settled = check(name=None, more="app.conf.anarchon_namespace = 'shop'")

    assert (nameless.code, named.code, settled.code) == (1, 0, 0)
    assert "the app has no name" in nameless.of("warning")[0]


def test_what_is_logged_of_the_settings_is_a_doubt(check: Check) -> None:
    told = check(store=None, more="app.conf.anarchon_disabled = ['gone']")

    assert told.code == 1
    assert [line[:50] for line in told.of("warning")] == [
        "warning: anarchon_disabled names 'gone', which is ",
        "warning: no store is configured and neither broker",
    ]


def test_no_jobs_at_all_are_a_doubt(check: Check) -> None:
    told = check("")

    assert told.code == 1
    assert told.of("warning") == ["warning: there are no jobs: nothing will be scheduled"]


# ---------------------------------------------------------------- what differs from celery beat


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ('"schedule": 600', "schedule: is due on a grid from 1970-01-01T00:00Z"),
        ('"schedule": timedelta(days=1)', "schedule: is due at midnight UTC; celery beat counts"),
        ('"schedule": timedelta(days=7)', "schedule: is due at midnight UTC on Thursdays"),
        ('"schedule": timedelta(days=3)', "schedule: is due at midnight UTC, each 3d from 1970"),
        ('"schedule": timedelta(minutes=90), "relative": True', "relative=True is ignored"),
        ('"schedule": crontab(nowfun=print)', "nowfun is ignored"),
        ('"schedule": crontab()', "catch_up: after a downtime the newest missed slot"),
        ('"schedule": crontab(hour=2, minute=30)', "changes of the clocks in Europe/Paris"),
        ('"schedule": crontab(minute="*/15")', "changes of the clocks in Europe/Paris"),
        ('"schedule": 60, "options": {"expires": 30}', "expires: is counted from the slot"),
        ('"schedule": 60, "options": {"task_id": "x"}', "every message gets the same task_id"),
        ('"schedule": 60, "options": {"retry_policy": {}}', "retry_policy: is ignored"),
        ('"schedule": 60, "last_run_at": None, "total_run_count": 3', "total_run_count"),
        ('"schedule": "10s"', "schedule: is written as only anarchon reads it"),
        ('"schedule": 60, "options": {"expires": "next"}', 'expires: is "next"'),
    ],
)
def test_what_differs_from_stock_beat_is_a_note(check: Check, entry: str, said: str) -> None:
    told = check(
        f'"x": {{"task": "shop.rates", {entry}}}', more="app.conf.timezone = 'Europe/Paris'"
    )

    assert told.code == 0
    (line,) = [line for line in told.of("note") if said in line]
    assert line.startswith("note: job 'x': ")


def test_what_stands_beside_its_task_is_lost_to_stock_beat(check: Check) -> None:
    told = check("", more="@periodic(30)\n@app.task(name='shop.sweep')\ndef sweep(): ...")

    assert told.code == 0
    assert "note: job 'shop.sweep': schedule: stands beside its task: celery beat cannot run" in (
        "\n".join(told.lines)
    )


@pytest.mark.parametrize(
    ("entry", "more"),
    [
        ('"schedule": crontab(hour=8, minute=0)', "app.conf.beat_cron_starting_deadline = 3600"),
        (
            '"schedule": crontab(hour=8, minute=0), "options": {"anarchon": {"catch_up": "1d"}}',
            "app.conf.timezone = 'Europe/Paris'",
        ),
    ],
)
def test_there_is_no_note_where_nothing_differs(check: Check, entry: str, more: str) -> None:
    told = check(f'"x": {{"task": "shop.rates", {entry}}}', more=more)

    assert (told.code, told.lines[:-1]) == (0, [])


def test_many_jobs_of_one_note_make_one_line(check: Check) -> None:
    entries = ", ".join(f'"j{n}": {{"task": "shop.rates", "schedule": {60 + n}}}' for n in range(8))

    told = check(entries)

    assert [line[:55] for line in told.of("note")] == [
        "note: jobs 'j0', 'j1', 'j2', 'j3', 'j4' and 3 more: sch",
        "note: jobs 'j0', 'j1', 'j2', 'j3', 'j4' and 3 more: cat",
    ]


# ---------------------------------------------------------------- servers that are not there


def test_a_store_that_cannot_serve_is_a_mistake(check: Check) -> None:
    told = check(SOUND, "--json", store="sqlite:///gone/jobs.db")
    offline = check(store="sqlite:///gone/jobs.db")

    (error,) = [
        each for each in json.loads("\n".join(told.lines))["findings"] if each["level"] == "error"
    ]
    assert (told.code, offline.code) == (2, 0)
    assert error["problem"].endswith("/gone does not exist")


def test_a_broker_that_is_away_is_told_without_its_password(check: Check) -> None:
    told = check(SOUND, "--json", broker="redis://user:secret@localhost:1/0")

    assert told.code == 3
    text = "\n".join(told.lines)
    assert "the broker redis://localhost:1/0 cannot be used" in text
    assert "secret" not in text


def test_a_mistake_counts_more_than_a_server_that_is_away(check: Check) -> None:
    told = check('"a": {"schedule": 60}', "--json", store="sqlite:///gone/jobs.db")

    assert told.code == 2


def test_workers_that_no_control_command_can_reach_are_not_asked(check: Check) -> None:
    without_fanout = (
        "from kombu.transport.memory import Transport\n"
        "Transport.implements = Transport.implements.extend(exchange_type=frozenset(['direct']))\n"
    )

    told = check(SOUND, "--json", more=without_fanout)

    found = json.loads("\n".join(told.lines))
    assert (told.code, found["workers"]) == (0, None)
    assert "workers cannot be asked over memory" in [f["problem"] for f in found["findings"]]


def test_a_project_that_turns_other_loggers_off_is_told_its_notes_all_the_same(
    check: Check,
) -> None:
    told = check(
        '"x": {"task": "shop.rates", "schedule": 60, "options": {"task_id": "x"}}',
        more="import logging.config\nlogging.config.dictConfig({'version': 1})",
    )

    assert "every message gets the same task_id" in "\n".join(told.lines)


# ---------------------------------------------------------------- other ways to ask


def test_a_scheduler_is_checked_too(
    beat: Beat, declared: Callable[[Scheduler], str], tmp_path: Path
) -> None:
    scheduler = Scheduler(f"sqlite:///{tmp_path}/jobs.db")
    scheduler.every("sync", "40s", print)

    told = beat("-A", declared(scheduler), "check")

    assert told.code == 0
    assert told.out.splitlines()[-1].startswith("1 job in namespace 'default' on sqlite://")
    assert list(tmp_path.glob("*.db")) == []


def test_a_scheduler_in_memory_is_a_doubt(beat: Beat, declared: Callable[[Scheduler], str]) -> None:
    scheduler = Scheduler("memory://")
    scheduler.every("sync", "40s", print)

    told = beat("-A", declared(scheduler), "check")

    assert told.code == 1
    assert "no other process meets this one here" in told.out


def test_celery_checks_under_its_own_name(check: Check, tmp_path: Path) -> None:
    check()
    program = Program(tmp_path, "celery", "-A", "proj", "anarchon", "check", "--offline")

    assert program.end() == 0
    assert "1 job in namespace 'shop'" in program.output
    program.kill()
