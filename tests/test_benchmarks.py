"""Every benchmark still works: a quick run of each, whose figures mean nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import FIGURES
from benchmarks.effort import Effort
from benchmarks.table import Peer, Row, render
from tests.servers import ServersForTests

ROOT = Path(__file__).resolve().parent.parent
#: What an instance's processes and a broker take part in costs seconds of waiting.
LONG = ("lag", "cost", "silence")

pytestmark = [pytest.mark.xdist_group("benchmarks"), pytest.mark.timeout(240)]


@pytest.fixture
def redis_is_there(servers: ServersForTests) -> None:
    servers.get("redis-8.0")


@pytest.mark.usefixtures("redis_is_there")
def test_a_quick_burst_is_published_once() -> None:
    table = run_quickly("burst")

    counted = [line for line in table if "doubled, lost, taken over" in line]
    assert len(counted) == 2
    assert all("0, 0, 0" in line and line.endswith("yes") for line in counted)


@pytest.mark.usefixtures("redis_is_there")
def test_a_quick_start_and_an_idle_instance_are_measured() -> None:
    table = run_quickly("start", "idle")

    assert {line.partition(":")[0] for line in table} == {"start", "idle"}


@pytest.mark.soak
@pytest.mark.usefixtures("redis_is_there")
@pytest.mark.parametrize("figure", LONG)
def test_a_quick_run_is_measured(figure: str) -> None:
    table = run_quickly(figure)

    assert {line.partition(":")[0] for line in table} == {figure}


def test_a_size_that_was_asked_for_takes_the_place_of_a_figures_own() -> None:
    assert Effort(sizes=[7]).sizes_or([1, 2], [3]) == [7]
    assert Effort(quick=True).sizes_or([1, 2], [3]) == [3]
    assert Effort().sizes_or([1, 2], [3]) == [1, 2]


def test_a_ratio_stands_beside_what_it_is_held_against() -> None:
    text = render([Row("figure", "2 s", [Peer("limit", "1 s", 2.0)], "≤ 1.5", met=False)])

    assert "limit: 1 s" in text
    assert text.splitlines()[2].split()[-2:] == ["1.5", "NO"]


def run_quickly(*figures: str) -> list[str]:
    """Run benchmarks and return the lines of the table that are theirs."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--quick", *figures],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert set(figures) <= FIGURES.keys()
    lines = done.stdout.splitlines()
    assert not [line for line in lines if "skipped" in line]
    return [line for line in lines if line.startswith(figures)]
