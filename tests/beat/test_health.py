"""`health`: what a liveness probe hears, and what it costs."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from anarchon_beat import cli, commands, pulse
from tests.beat.conftest import Beat

Shown = Callable[..., Path]


@pytest.fixture
def shown(beat: Beat) -> Shown:
    """Write what a daemon in this very process would say of itself."""

    def show(path: str | None = None, *, silent: float = 0.0, **fields: Any) -> Path:
        pid = fields.get("pid", os.getpid())
        said = pulse.Pulse(
            version=pulse.VERSION,
            pid=pid,
            born=pulse.born(os.getpid()),
            app="proj",
            namespace="proj",
            state="running",
            ready=True,
            woken=pulse.now() - silent,
        )
        said.update(fields)  # type: ignore[typeddict-item]  # a test says what it likes
        pulse.make_folder()
        target = path or pulse.path_of(pid)
        pulse.write(target, said)
        return Path(target)

    return show


def test_a_loop_that_woke_just_now_is_healthy(beat: Beat, shown: Shown) -> None:
    shown(silent=100)

    told = beat("health")

    assert told.code == 0
    assert told.out == f"healthy: -A proj (pid {os.getpid()}) woke 100 s ago, ready\n"


def test_a_loop_that_has_not_woken_for_two_minutes_is_not(beat: Beat, shown: Shown) -> None:
    shown(silent=121)

    told = beat("health")

    assert told.code == 1
    assert "has not woken for 121 s" in told.out


def test_without_a_daemon_nothing_is_healthy(beat: Beat) -> None:
    told = beat("health")

    assert (told.code, told.out) == (1, "not healthy: no anarchon-beat of this user runs here\n")


def test_a_daemon_that_was_killed_is_not_healthy_however_fresh_its_file(
    beat: Beat, shown: Shown
) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    shown(pid=ended.pid)

    told = beat("health")

    assert told.code == 1
    assert f"anarchon-beat has ended (pid {ended.pid})" in told.out


def test_another_process_with_the_number_of_a_daemon_is_no_daemon(beat: Beat, shown: Shown) -> None:
    shown(born="1")

    assert beat("health").code == 1


def test_a_daemon_that_is_starting_is_healthy_and_not_ready(beat: Beat, shown: Shown) -> None:
    shown(state="starting", ready=False)

    assert beat("health").code == 0
    told = beat("health", "--ready")

    assert told.code == 1
    assert "is starting" in told.out


def test_a_daemon_whose_store_is_away_is_healthy_and_not_ready(beat: Beat, shown: Shown) -> None:
    shown(ready=False)

    assert beat("health").code == 0
    told = beat("health", "--ready")

    assert told.code == 1
    assert "waits for the store" in told.out


def test_a_daemon_that_answers_is_ready(beat: Beat, shown: Shown) -> None:
    shown()

    assert beat("health", "--ready").code == 0


def test_one_sick_daemon_among_two_is_told(beat: Beat, shown: Shown) -> None:
    shown()
    shown(pid=os.getppid(), born=pulse.born(os.getppid()), silent=500)

    told = beat("health")

    assert told.code == 1
    assert told.out.count("\n") == 1


def test_a_dramatiq_schedule_is_found_by_the_options_it_was_started_with(
    beat: Beat, shown: Shown
) -> None:
    shown(app="shop.broker:broker")

    told = beat("--dramatiq", "shop.broker:broker", "--dramatiq=shop.tasks", "health")

    assert told.code == 0, told.out


def test_the_app_picks_among_daemons(beat: Beat, shown: Shown) -> None:
    shown()

    assert beat("-A", "proj", "health").code == 0
    assert beat("health", "-A", "proj").code == 0
    told = beat("--app=other", "health")

    assert (told.code, told.out) == (1, "not healthy: no anarchon-beat -A other runs here\n")


def test_the_pidfile_picks_a_daemon(beat: Beat, shown: Shown, tmp_path: Path) -> None:
    shown()
    (tmp_path / "beat.pid").write_text(f"{os.getpid()}\n")

    assert beat("--pidfile", "beat.pid", "health").code == 0
    assert beat("--pidfile", "other.pid", "health").code == 1


def test_the_health_file_may_lie_anywhere(beat: Beat, shown: Shown, tmp_path: Path) -> None:
    shown(str(tmp_path / "alive"))

    assert beat("--health-file", "alive", "health").code == 0
    assert beat("health", "--health-file", "dead").code == 1


@pytest.mark.parametrize("content", ["", "{", "[]", json.dumps({"version": "other/9"})])
def test_a_file_of_another_kind_is_no_sign_of_life(
    beat: Beat, tmp_path: Path, content: str
) -> None:
    (tmp_path / "alive").write_text(content)

    assert beat("health", "--health-file", "alive").code == 1


def test_a_mistake_in_a_probe_is_told_in_one_line(beat: Beat) -> None:
    with pytest.raises(SystemExit) as left:
        beat("health", "--redy")

    assert left.value.code == 2


def test_a_folder_that_others_could_write_to_is_refused(beat: Beat, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    Path(pulse.folder()).symlink_to(elsewhere)

    with pytest.raises(PermissionError):
        pulse.make_folder()


def test_a_probe_imports_little_and_none_of_what_is_slow(tmp_path: Path) -> None:
    """A probe is to take less than 0.1 s, of which Python itself takes the most."""
    loaded = _loaded_by("from anarchon_beat.cli import run; run(['-A', 'proj', 'health'])")
    loaded -= _loaded_by("pass")

    ours = {name for name in loaded if name.partition(".")[0] not in sys.stdlib_module_names}
    assert ours == {
        "anarchon_beat",
        "anarchon_beat.cli",
        "anarchon_beat.health",
        "anarchon_beat.pulse",
        "anarchon_beat.streams",
    }
    slow = {"asyncio", "dataclasses", "inspect", "logging", "socket", "subprocess", "tempfile"}
    assert loaded.isdisjoint(slow)
    assert len(loaded) < 60


def _loaded_by(statement: str) -> set[str]:
    script = f"import sys\n{statement}\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


def test_every_option_that_takes_a_value_is_known_without_click() -> None:
    taking_values = {
        spelling
        for option in commands.anarchon_beat.params
        if isinstance(option, click.Option) and not option.is_flag
        for spelling in option.opts
    }

    assert taking_values == set(cli.VALUED)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["health"], ({}, "health", [])),
        (["-A", "health", "next"], ({"-A": "health"}, "next", [])),
        (["-Aproj", "health", "--ready"], ({"-A": "proj"}, "health", ["--ready"])),
        (
            ["--app=proj", "--log-json", "health"],
            ({"--app": "proj", "--log-json": ""}, "health", []),
        ),
        (["-l", "info"], ({"-l": "info"}, None, [])),
        (["--", "health"], ({}, "health", [])),
        (["-A"], ({"-A": ""}, None, [])),
    ],
)
def test_the_command_is_found_among_the_options(
    arguments: list[str], expected: tuple[dict[str, str], str | None, list[str]]
) -> None:
    assert cli.split(arguments) == expected
