"""The demo: what its records prove, and that it plays to its end."""

import re
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from anarchon import At, Every, Schedule
from anarchon.clock import to_millis
from anarchon_beat.demo import Story, Stuck
from anarchon_beat.demo_records import Reader, Record, Recorder, Verdict, judge
from tests.beat.conftest import Beat, Process
from tests.programs import ROOT

FIRST = datetime.fromisoformat("2026-11-29T12:00:00Z")
LAST = FIRST + timedelta(seconds=2)
SCHEDULES: dict[str, Schedule] = {"tick": Every("1s"), "report": At(FIRST)}


def record(
    what: str, job: str = "tick", second: int = 0, *, attempt: int = 1, **rest: Any
) -> Record:
    millis = to_millis(FIRST + timedelta(seconds=second))
    return Record(
        what, **{"by": "A", "job": job, "slot_millis": millis, "attempt": attempt, **rest}
    )


def ran(job: str = "tick", second: int = 0, *, attempt: int = 1, by: str = "A") -> list[Record]:
    return [record(what, job, second, attempt=attempt, by=by) for what in ("start", "end")]


ALL = [*ran("tick", 0), *ran("tick", 1), *ran("tick", 2), *ran("report")]


def verdict(*records: Record, disturbed: tuple[str, ...] = ()) -> Verdict:
    return judge(records, SCHEDULES, FIRST, LAST, disturbed=disturbed)


def test_every_slot_once_is_what_was_promised() -> None:
    found = verdict(*ALL)

    assert found.is_kept
    assert str(found) == "4 slots, 4 runs, 0 duplicates, 0 takeovers"


def test_a_run_that_another_finishes_is_a_takeover_and_no_duplicate() -> None:
    found = verdict(*ALL[:-1], *ran("report", attempt=2, by="B"))

    assert found.is_kept
    assert str(found) == "4 slots, 4 runs, 0 duplicates, 1 takeover"


def test_a_slot_that_was_run_to_its_end_twice_breaks_the_promise() -> None:
    found = verdict(*ALL, *ran("report", attempt=2, by="B"))

    assert not found.is_kept
    assert found.duplicates == 1


def test_an_attempt_that_was_started_twice_breaks_the_promise() -> None:
    found = verdict(*ALL, record("start", "tick", 1, by="B"))

    assert not found.is_kept
    assert found.duplicates == 1


def test_a_slot_that_nobody_ran_breaks_the_promise() -> None:
    found = verdict(*ALL[2:])

    assert not found.is_kept
    assert found.lost == (("tick", FIRST),)


def test_a_slot_that_was_started_and_never_ended_is_lost() -> None:
    assert verdict(*ALL[:-1]).lost == (("report", FIRST),)


def test_slots_outside_the_span_need_not_have_run() -> None:
    found = verdict(*ALL, *ran("tick", 3), record("start", "tick", 4))

    assert found.is_kept
    assert found.slots == 4


@pytest.mark.parametrize(("count", "late"), [(1, 1), (2, 2)])
def test_slots_all_came_too_late_to_are_counted_apart(count: int, late: int) -> None:
    found = verdict(*ALL[4:], record("late", "tick", 1, count=count))

    assert found.late == late
    assert len(found.lost) == 2 - late


def test_what_a_frozen_process_missed_excuses_nobody() -> None:
    found = verdict(*ALL[2:], record("late", "tick", 0, by="C"), disturbed=("C",))

    assert found.lost == (("tick", FIRST),)


def test_records_are_read_as_they_are_appended(tmp_path: Path) -> None:
    path = tmp_path / "records"
    recorder, reader = Recorder(path, "A"), Reader(path)
    assert reader.new() == []

    recorder.write("start", job="tick", slot=FIRST, attempt=1)
    with path.open("a") as file:
        file.write('{"what": "half of a li')

    assert reader.new() == [record("start")]
    assert reader.new() == []


@pytest.mark.parametrize(
    ("outcome", "code", "said"),
    [
        (Verdict(4, 4, 0, 2, 0, ()), 0, "every slot ran once"),
        (Verdict(4, 4, 1, 2, 0, ()), 1, "the promise did not hold"),
        (Verdict(4, 3, 0, 2, 0, (("tick", FIRST),)), 1, "nobody ran tick of 12:00:00"),
        (Stuck("nothing starts"), 1, "the demo got stuck: nothing starts"),
    ],
)
def test_the_exit_code_says_whether_the_promise_held(
    beat: Beat, monkeypatch: pytest.MonkeyPatch, outcome: Verdict | Stuck, code: int, said: str
) -> None:
    async def play(story: Story) -> Verdict:
        if isinstance(outcome, Stuck):
            raise outcome
        return outcome

    monkeypatch.setattr(Story, "play", play)

    told = beat("demo")

    assert told.code == code
    assert said in told.out


@pytest.mark.cluster
@pytest.mark.xdist_group("demo")
@pytest.mark.timeout(120)
def test_the_demo_plays_to_its_end_and_proves_its_promise(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "anarchon_beat", "demo"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    *story, summary = done.stdout.splitlines()
    counted = re.match(r"(\d+) slots, (\d+) runs, 0 duplicates, 2 takeovers", summary)
    assert counted is not None, summary
    assert int(counted[1]) > 20
    told = "\n".join(story)
    killed = re.search(r"kill -9 (\w), which is running report", told)
    assert killed is not None
    assert f"takes report over from {killed[1]}" in told
    assert "kill -STOP" in told
    assert "notices that its lease has lapsed" in told
    assert list(tmp_path.iterdir()) == []


def test_an_impatient_audience_leaves_no_processes_behind(
    start: Callable[..., Process], tmp_path: Path
) -> None:
    demo = start("demo")
    demo.read_until("won by")

    code = demo.end(signal.SIGINT)

    assert code == 130
    assert [path.name for path in tmp_path.iterdir() if "demo" in path.name] == []
    assert processes_that_name(tmp_path) == []


def processes_that_name(folder: Path) -> list[str]:
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_text(errors="replace"))
        except OSError:
            continue  # it has just ended
    return [line for line in lines if str(folder) in line]
