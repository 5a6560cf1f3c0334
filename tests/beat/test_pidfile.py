"""The pidfile: who holds it, and what becomes of one that was left behind."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from anarchon_beat.mistakes import Mistake
from anarchon_beat.pidfile import Pidfile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "beat.pid"


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """Some other process that lives."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process


def test_the_file_says_our_number_and_goes_when_we_end(path: Path) -> None:
    with Pidfile(str(path)):
        assert path.read_text() == f"{os.getpid()}\n"

    assert not path.exists()


def test_a_file_that_is_held_is_refused_with_code_4(path: Path) -> None:
    with Pidfile(str(path)):
        with pytest.raises(Mistake) as refused:
            Pidfile(str(path)).acquire()

        assert path.exists()
    assert refused.value.code == 4
    assert str(os.getpid()) in refused.value.message


def test_a_file_that_a_killed_daemon_left_is_taken(path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    path.write_text(f"{ended.pid}\n")

    with Pidfile(str(path)):
        assert path.read_text() == f"{os.getpid()}\n"


def test_a_file_with_a_longer_number_is_written_anew(path: Path) -> None:
    path.write_text("99999999999999\n")

    with Pidfile(str(path)):
        assert path.read_text() == f"{os.getpid()}\n"


def test_a_file_with_our_own_number_is_taken(path: Path) -> None:
    """In a container every start has the number 1."""
    path.write_text(f"{os.getpid()}\n")

    with Pidfile(str(path)):
        assert path.exists()


@pytest.mark.parametrize("content", ["", "me\n", "-1\n"])
def test_a_broken_file_is_taken(path: Path, content: str) -> None:
    path.write_text(content)

    with Pidfile(str(path)):
        assert path.read_text() == f"{os.getpid()}\n"


def test_a_living_program_that_locks_nothing_is_believed(
    path: Path, other: subprocess.Popen[bytes]
) -> None:
    path.write_text(f"{other.pid}\n")

    with pytest.raises(Mistake) as refused:
        Pidfile(str(path)).acquire()

    assert refused.value.code == 4
    assert path.read_text() == f"{other.pid}\n"


def test_what_has_become_somebody_elses_file_is_left_alone(path: Path) -> None:
    held = Pidfile(str(path))
    held.acquire()
    path.unlink()
    path.write_text("1\n")

    held.release()

    assert path.read_text() == "1\n"


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(Mistake) as refused:
        Pidfile(str(tmp_path / "no" / "beat.pid")).acquire()

    assert refused.value.code == 2
    assert "No such file" in refused.value.message
