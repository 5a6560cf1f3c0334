"""Every mistake is told in one line on standard error, and has its exit code."""

import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from anarchon import (
    ConfigurationError,
    OutcomeUnknown,
    Scheduler,
    SchemaMismatch,
    StoreError,
    StoreRefused,
    StoreUnavailable,
)
from anarchon_beat.answers import INSTEAD
from anarchon_beat.commands import anarchon_beat
from anarchon_beat.mistakes import code_of, one_line
from tests.beat.canned import CannedBackend
from tests.beat.conftest import Beat, Told


def assert_told_in_one_line(told: Told, *expected: str, code: int = 2) -> None:
    assert told.code == code
    assert told.out == ""
    assert told.err.startswith("anarchon-beat: ")
    assert told.err.count("\n") == 1
    for text in expected:
        assert text in told.err


@pytest.mark.parametrize("command", [(), ("next",), ("history",)])
def test_a_missing_app_is_told_with_what_to_type(beat: Beat, command: tuple[str, ...]) -> None:
    assert_told_in_one_line(beat(*command), "-A module:name")


def test_an_app_that_is_no_module_is_told(beat: Beat) -> None:
    assert_told_in_one_line(beat("-A", "no_such_thing", "next"), "'no_such_thing'")


@pytest.mark.parametrize("arguments", ["-A jobs:mine next", "-A jobs:mine", "-A jobs next"])
def test_a_folder_that_was_removed_is_told(tmp_path: Path, arguments: str) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f"rmdir ../gone && exec {sys.executable} -m anarchon_beat {arguments}"

    done = subprocess.run(["sh", "-c", script], cwd=gone, capture_output=True, text=True)

    told = Told(done.returncode, done.stdout, done.stderr)
    assert_told_in_one_line(told, "the folder that this was started in is gone")


def test_a_name_that_cannot_be_a_module_is_told(beat: Beat) -> None:
    assert_told_in_one_line(beat("-A", "my-app:x", "next"), "'my-app'")


def test_an_attribute_that_is_not_there_is_told(beat: Beat, tmp_path: Path) -> None:
    (tmp_path / "empty.py").touch()

    assert_told_in_one_line(beat("-A", "empty:app", "next"), "module empty has no 'app'")


def test_what_is_neither_app_nor_scheduler_is_told(beat: Beat, tmp_path: Path) -> None:
    (tmp_path / "web.py").write_text("app = {}")

    assert_told_in_one_line(beat("-A", "web", "next"), "a dict")


def test_a_module_with_a_scheduler_is_answered_with_its_name(beat: Beat, tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text("import anarchon\nmine = anarchon.Scheduler('memory://')")

    assert_told_in_one_line(beat("-A", "jobs", "next"), "did you mean -A jobs:mine?")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("\n1 / 0", "ZeroDivisionError: division by zero (broken.py, line 2)"),
        ("import anarchon\nanarchon.nothing", "AttributeError"),
        ("import not_installed", "ModuleNotFoundError: No module named 'not_installed'"),
        ("x = (", "broken.py, line 1"),
        ("raise SystemExit('go away')", "SystemExit: go away"),
    ],
)
@pytest.mark.parametrize("name", ["broken", "broken:app"])
def test_a_module_that_fails_is_told_with_its_place(
    beat: Beat, tmp_path: Path, name: str, code: str, said: str
) -> None:
    (tmp_path / "broken.py").write_text(code)

    assert_told_in_one_line(beat("-A", name, "next"), f"-A {name}: ", said)


def test_a_package_whose_celery_module_fails_is_told_why(beat: Beat, tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").touch()
    (tmp_path / "pack" / "celery.py").write_text("import not_installed")

    assert_told_in_one_line(beat("-A", "pack", "next"), "No module named 'not_installed'")


def test_a_mistake_in_a_schedule_is_told_with_its_job(beat: Beat, tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(
        "import anarchon\nmine = anarchon.Scheduler('memory://')\n"
        "mine.cron('digest', '0 25 * * *', print)"
    )

    assert_told_in_one_line(beat("-A", "jobs:mine", "next"), "job 'digest': ", "jobs.py, line 3")


def test_a_module_that_is_not_there_is_told_with_the_folder_that_was_searched(
    beat: Beat, tmp_path: Path
) -> None:
    assert_told_in_one_line(beat("-A", "no_such_thing", "next"), str(tmp_path))


def test_an_unknown_option_is_told(beat: Beat) -> None:
    assert_told_in_one_line(beat("-A", "x", "--nope"), "--nope")


def options_of_celery_beat() -> list[str]:
    from celery.bin.beat import beat
    from celery.bin.celery import celery

    options = [one for one in (*celery.params, *beat.params) if isinstance(one, click.Option)]
    return sorted({name for one in options for name in (*one.opts, *one.secondary_opts)})


@pytest.mark.parametrize("option", options_of_celery_beat())
def test_every_option_of_celery_beat_is_one_here_or_is_answered(option: str) -> None:
    ours = {name for one in anarchon_beat.params for name in one.opts}

    assert (option in ours) != (option in INSTEAD)


@pytest.mark.parametrize("words", [("-S", "x"), ("--scheduler=x",), ("--detach",), ("-Sx",)])
@pytest.mark.parametrize("command", [(), ("run",)])
def test_an_option_of_celery_beat_is_answered_with_what_to_do_here(
    beat: Beat, words: tuple[str, ...], command: tuple[str, ...]
) -> None:
    option = words[0].partition("=")[0].replace("-Sx", "-S")

    assert_told_in_one_line(
        beat("-A", "x", *command, *words), f"has no option {option}: {INSTEAD[option]}"
    )


def test_the_command_beat_is_answered_with_leaving_it_out(beat: Beat) -> None:
    assert_told_in_one_line(beat("-A", "x", "beat", "-l", "info"), "leave `beat` out")


@pytest.mark.parametrize("command", ["run", "next", "history"])
@pytest.mark.parametrize("option", ["-A", "--app", "--store", "--namespace"])
def test_an_option_after_the_command_is_answered_with_its_place(
    beat: Beat, command: str, option: str
) -> None:
    assert_told_in_one_line(beat(command, option, "x"), f"{option} stands before the command")


@pytest.mark.parametrize(
    ("command", "wrong", "right"),
    [
        ("next", "--limit", "-n"),
        ("history", "-n", "--limit"),
    ],
)
def test_the_option_of_the_other_command_is_answered_with_this_ones(
    beat: Beat, command: str, wrong: str, right: str
) -> None:
    assert_told_in_one_line(beat("-A", "x", command, wrong, "3"), f"type {right}")


def test_a_broker_whose_transport_is_not_installed_is_told_with_what_to_type(
    tmp_path: Path,
) -> None:
    (tmp_path / "proj.py").write_text(
        "from celery import Celery\napp = Celery('proj', broker='redis://me:hunter2@localhost')"
    )

    told = without("packaging.version", tmp_path, "-A", "proj", "--store", "memory://")

    assert_told_in_one_line(told, "broker_url", "pip install 'celery[redis]'")
    assert "hunter2" not in told.err


def test_an_unknown_command_is_told(beat: Beat) -> None:
    assert_told_in_one_line(beat("-A", "x", "explode"), "explode")


def test_an_unknown_log_level_is_told(beat: Beat) -> None:
    assert_told_in_one_line(beat("-A", "x", "-l", "loud"), "loud")


@pytest.mark.parametrize("option", ["--store=memory://", "--disable=sync", "--namespace=x"])
def test_options_for_celery_apps_are_refused_for_a_scheduler(
    beat: Beat, declared: Callable[[Scheduler], str], option: str
) -> None:
    told = beat("-A", declared(Scheduler("memory://")), option, "next")

    assert_told_in_one_line(told, option.partition("=")[0])


@pytest.mark.parametrize("command", ["next", "history"])
def test_an_unknown_job_is_told_with_those_there_are(
    beat: Beat, declared: Callable[[Scheduler], str], command: str
) -> None:
    scheduler = Scheduler("memory://")
    scheduler.every("sync", "10s", print)

    told = beat("-A", declared(scheduler), command, "--job", "backup")

    assert_told_in_one_line(told, "'backup'", "sync")


def test_a_store_nobody_answers_for_is_told_without_its_password(beat: Beat) -> None:
    told = beat("-A", "tests.beat.projects:app", "--store", "oracle://me:hunter2@host/db", "next")

    assert_told_in_one_line(told, "oracle://")
    assert "hunter2" not in told.err


def test_a_driver_that_is_missing_is_told_with_what_to_type(tmp_path: Path) -> None:
    told = without("redis", tmp_path, "-A", "jobs:mine", "next")

    assert_told_in_one_line(told, "pip install 'anarchon[redis]'")


def test_celery_that_is_missing_is_told_with_what_to_type(tmp_path: Path) -> None:
    told = without("celery", tmp_path, "-A", "json", "next")

    assert_told_in_one_line(told, "pip install 'anarchon[celery]'")


def test_a_scheduler_needs_no_celery(tmp_path: Path) -> None:
    told = without("celery", tmp_path, "-A", "jobs:local", "next")

    assert (told.code, told.out, told.err) == (0, "no slot is to come\n", "")


def without(package: str, folder: Path, *arguments: str) -> Told:
    """Run the command where a package is not installed."""
    (folder / "jobs.py").write_text(
        "from anarchon import Scheduler\nlocal = Scheduler('memory://')\n"
        "def __getattr__(name):\n    return Scheduler('redis://localhost')"
    )
    script = (
        f"import sys\nsys.modules[{package!r}] = None\n"
        "from anarchon_beat.cli import main\nsys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], cwd=folder, capture_output=True, text=True
    )
    return Told(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("anarchon_beat.streams", "health"),
        ("anarchon_beat.health", "health"),
        ("anarchon_beat.commands", "--version"),
        ("click", "--version"),
        ("anarchon_beat.find", "-A jobs:local"),
        ("jobs", "-A jobs:local"),
        ("jobs", "-A jobs:local next"),
        ("anarchon_beat.next", "-A jobs:local next"),
    ],
)
def test_an_interrupt_while_it_is_loading_is_code_130(
    tmp_path: Path, module: str, arguments: str
) -> None:
    (tmp_path / "jobs.py").write_text("from anarchon import Scheduler\nlocal = Scheduler('x:')")
    script = (
        "import os, signal, sys\n"
        "class Impatient:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == {module!r}:\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "sys.meta_path.insert(0, Impatient())\n"
        "from anarchon_beat.cli import main\n"
        "sys.exit(main())"
    )

    done = subprocess.run(
        [sys.executable, "-c", script, *arguments.split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )

    assert Told(done.returncode, done.stdout, done.stderr.strip()) == Told(130, "", "")


def test_a_store_that_is_away_is_code_3(beat: Beat) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"redis://me:hunter2@127.0.0.1:{nobody.getsockname()[1]}/0"
        told = beat("-A", "tests.beat.projects:app", "--store", url, "history")

    assert_told_in_one_line(told, "127.0.0.1", code=3)
    assert "hunter2" not in told.err


def test_a_store_of_another_version_is_told(
    beat: Beat, declared: Callable[[Scheduler], str], canned: CannedBackend
) -> None:
    canned.error = SchemaMismatch(canned.label, "was upgraded by a newer anarchon")

    told = beat("-A", declared(Scheduler(canned)), "history")

    assert_told_in_one_line(told, "was upgraded by a newer anarchon")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigurationError("wrong"), 2),
        (SchemaMismatch("db", "newer"), 2),
        (StoreUnavailable("db", "away"), 3),
        (OutcomeUnknown("db", "silent"), 3),
        (StoreRefused("db", "refuses the password"), 2),
        (StoreError("db", "is too old"), 2),
    ],
)
def test_errors_have_their_codes(error: ConfigurationError | StoreError, code: int) -> None:
    assert code_of(error) == code


def test_one_line_keeps_the_words_and_hides_the_passwords() -> None:
    text = "two problems:\n  first of redis://me:p4ss@host/0\n  second"

    assert one_line(text) == "two problems: first of redis://me:**@host/0 | second"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no redis://:/hunter2@h:6379/0 here", "no redis://**@h:6379/0 here"),
        ("redis://u:12/hunter2@h/0", "redis://**@h/0"),
        ("redis:/u:hunter2@h/0", "redis:/**@h/0"),
        ("redis:u:hunter2@h/0", "redis:**@h/0"),
        ("amqp://u:a@hunter2@h", "amqp://**@h"),
        ("job 'a': tell me@example.org at 10:30", "job 'a': tell me@example.org at 10:30"),
    ],
)
def test_whatever_else_may_be_a_password_is_hidden_too(text: str, said: str) -> None:
    assert one_line(text) == said


def test_a_broker_whose_url_cannot_be_read_is_told_without_its_password(
    beat: Beat, tmp_path: Path
) -> None:
    (tmp_path / "proj.py").write_text(
        "from celery import Celery\napp = Celery('proj', broker='redis://:pa[hunter2]x@h/0')"
    )

    told = beat("-A", "proj", "next")

    assert_told_in_one_line(told, "broker_url: ", "percent-encode")
    assert "hunter2" not in told.err


def test_a_beat_scheduler_whose_entries_live_elsewhere_is_refused(beat: Beat) -> None:
    told = beat("-A", "tests.beat.projects:in_a_database", "next")

    assert_told_in_one_line(
        told, "django_celery_beat.schedulers:DatabaseScheduler", "--ignore-beat-scheduler"
    )


def test_a_beat_scheduler_may_be_ignored(beat: Beat) -> None:
    told = beat("-A", "tests.beat.projects:in_a_database", "--ignore-beat-scheduler", "next")

    assert told.code == 0


def test_an_entry_to_leave_out_that_is_not_there_is_told(beat: Beat) -> None:
    told = beat("-A", "tests.beat.projects:app", "--disable", "ad", "next")

    assert_told_in_one_line(told, "'ad'")
