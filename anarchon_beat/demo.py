"""`anarchon-beat demo`: three processes share a schedule while one is killed and one is frozen.

No server: they meet in a SQLite file in a temporary folder. Takes about half a minute.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

from anarchon import Every, SystemClock
from anarchon.clock import to_millis
from anarchon_beat.demo_records import Reader, Record, Verdict, judge
from anarchon_beat.demo_view import View, open_view
from anarchon_beat.demo_worker import LEASE, RECORDS, schedules
from anarchon_beat.mistakes import FOUND_SOMETHING
from anarchon_beat.streams import say
from anarchon_beat.times import span

PROCESSES = ("A", "B", "C")

_SECOND = timedelta(seconds=1)
#: From the first slot that counts to the two long runs: the first is over before the second.
_REPORT_AFTER, _EXPORT_AFTER = timedelta(seconds=2), timedelta(seconds=11)
#: Into a long run, and between the slots of the short jobs.
_BLOW_AFTER = timedelta(seconds=1.5)
_LOOK = 0.05
_PATIENCE = 20.0


def run() -> int:
    """Play the demo; return the exit code, which is not 0 if the promise did not hold."""
    folder = Path(tempfile.mkdtemp(prefix="anarchon-demo-"))
    cast = Cast(folder)
    try:
        with open_view(PROCESSES) as view:
            verdict = asyncio.run(Story(folder, cast, view).play())
    except Stuck as stuck:
        say(f"the demo got stuck: {stuck}; what the processes said is in {folder}")
        return FOUND_SOMETHING
    except KeyboardInterrupt:
        cast.kill_all()
        shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        cast.kill_all()
    if verdict.is_kept:
        say(f"{verdict}: every slot ran once, with one process killed and one frozen")
        shutil.rmtree(folder, ignore_errors=True)
        return 0
    say(f"{verdict}: the promise did not hold; what the processes said is in {folder}")
    for job, slot in verdict.lost:
        say(f"nobody ran {job} of {slot:%H:%M:%S}")
    return FOUND_SOMETHING


class Stuck(Exception):
    """Something that the story waits for did not happen."""


class Cast:
    """The three processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        """Start a process; its log goes to a file beside the store."""
        with (self._folder / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                [sys.executable, "-m", "anarchon_beat.demo_worker", str(self._folder), name],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                # ^C is for us: we end them in order
                start_new_session=True,
            )

    def tell_all(self, line: str) -> None:
        """Write a line to every process."""
        for process in self._processes.values():
            assert process.stdin is not None, "opened as a pipe"
            process.stdin.write(line.encode())
            process.stdin.flush()

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a process."""
        self._processes[name].send_signal(number)

    def ended(self, name: str) -> bool:
        """Tell whether a process is gone."""
        return self._processes[name].poll() is not None

    def kill_all(self) -> None:
        """Leave nothing behind, frozen or not."""
        for process in self._processes.values():
            process.kill()
            process.wait()


class Story:
    """What happens to the three, in order, and what is proved by it."""

    def __init__(self, folder: Path, cast: Cast, view: View) -> None:
        self._cast = cast
        self._view = view
        self._clock = SystemClock()
        self._reader = Reader(folder / RECORDS)

    async def play(self) -> Verdict:
        """Play it; raises ``Stuck``."""
        self._view.note(f"three processes start on one SQLite file; leases of {span(LEASE)}")
        for name in PROCESSES:
            self._cast.start(name)
        await self._until(lambda: len(self._all("ready")) == len(PROCESSES), "all are ready")
        # the slot after the next one: none of the jobs is new to anybody then
        first = self._slot_after(2 * _SECOND)
        report, export = first + _REPORT_AFTER, first + _EXPORT_AFTER
        self._cast.tell_all(f"{to_millis(report)} {to_millis(export)}\n")

        killed = await self._kill_the_runner_of("report")
        frozen = await self._freeze_the_runner_of("export")

        last = self._slot_after(_SECOND)
        await self._reach(last + 1.5 * _SECOND)
        await self._stop([name for name in PROCESSES if name != killed])
        return judge(
            self._reader.all,
            schedules(report, export),
            first,
            last,
            disturbed=(killed, frozen),
        )

    async def _kill_the_runner_of(self, job: str) -> str:
        """Kill a process in the middle of a run, and see another take the run over."""
        start = await self._start_of(job, attempt=1)
        await self._reach(start.slot + _BLOW_AFTER)
        self._cast.signal(start.by, signal.SIGKILL)
        self._view.mark(start.by, "killed")
        self._view.note(f"kill -9 {start.by}, which is running {job}")
        await self._see_takeover(job, start.by)
        await self._until(lambda: self._all("end", job), f"{job} ends")
        return start.by

    async def _freeze_the_runner_of(self, job: str) -> str:
        """Freeze a process in the middle of a run, see a takeover, and let it go again."""
        start = await self._start_of(job, attempt=1)
        await self._reach(start.slot + _BLOW_AFTER)
        await self._freeze(start.by)
        self._view.mark(start.by, "frozen")
        self._view.note(f"kill -STOP {start.by}, which is running {job}")
        await self._see_takeover(job, start.by)
        await self._clock.sleep(1.0)
        self._cast.signal(start.by, signal.SIGCONT)
        self._view.mark(start.by, "")
        self._view.note(f"kill -CONT {start.by}, which believes that {job} is still its own")
        await self._until(lambda: self._all("stopped", job), f"{start.by} notices")
        self._view.note(f"{start.by} notices that its lease has lapsed, and stops")
        await self._until(lambda: self._all("end", job), f"{job} ends")
        return start.by

    async def _freeze(self, name: str) -> None:
        """Freeze a process that is not just writing to the file: that would hold up everybody."""
        while True:
            seen = len(self._reader.all)
            self._cast.signal(name, signal.SIGSTOP)
            if await self._happens(lambda seen=seen: len(self._reader.all) > seen, 1.5):  # type: ignore[misc]
                return
            self._cast.signal(name, signal.SIGCONT)
            await self._clock.sleep(0.1)

    async def _see_takeover(self, job: str, after: str) -> None:
        before = self._clock.monotonic()
        start = await self._start_of(job, attempt=2)
        took = timedelta(seconds=self._clock.monotonic() - before)
        self._view.note(f"{start.by} takes {job} over from {after}, {span(took)} later")

    async def _stop(self, names: list[str]) -> None:
        for name in names:
            self._cast.signal(name, signal.SIGTERM)
        await self._until(lambda: all(map(self._cast.ended, names)), "the processes end")

    async def _start_of(self, job: str, *, attempt: int) -> Record:
        def started() -> list[Record]:
            return [r for r in self._all("start", job) if r.attempt == attempt]

        await self._until(lambda: bool(started()), f"attempt {attempt} of {job} starts")
        return started()[0]

    def _all(self, what: str, job: str = "") -> list[Record]:
        return [r for r in self._reader.all if r.what == what and r.job == job]

    def _slot_after(self, wait: timedelta) -> datetime:
        slot = Every(_SECOND).next_after(self._clock.wall() + wait)
        assert slot is not None, "an interval has no end"
        return slot

    async def _reach(self, moment: datetime) -> None:
        while (left := (moment - self._clock.wall()).total_seconds()) > 0:
            self._look()
            await self._clock.sleep(min(left, _LOOK))

    async def _until(self, condition: Callable[[], object], what: str) -> None:
        if not await self._happens(condition, _PATIENCE):
            raise Stuck(f"{span(timedelta(seconds=_PATIENCE))} went by before {what}")

    async def _happens(self, condition: Callable[[], object], within: float) -> bool:
        limit = self._clock.monotonic() + within
        while True:
            self._look()
            if condition():
                return True
            if self._clock.monotonic() > limit:
                return False
            await self._clock.sleep(_LOOK)

    def _look(self) -> None:
        for record in self._reader.new():
            self._view.record(record)
