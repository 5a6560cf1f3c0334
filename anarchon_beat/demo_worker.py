"""One of the demo's processes: a scheduler whose jobs write down what they did."""

from __future__ import annotations

import asyncio
import signal
import sys
from datetime import datetime, timedelta
from pathlib import Path

from anarchon import At, Event, Every, RunContext, Schedule, Scheduler, SystemClock
from anarchon.clock import from_millis
from anarchon_beat.demo_records import Recorder

#: Short, so that a takeover can be waited for.
LEASE = timedelta(seconds=2)
LONG_RUN = timedelta(seconds=3)
_STEP = timedelta(seconds=0.1)

RECORDS = "records.jsonl"


def schedules(report: datetime, export: datetime) -> dict[str, Schedule]:
    """Return what is scheduled: two short jobs, and two long runs at a moment each."""
    return {
        "tick": Every("1s"),
        "tock": Every("2s"),
        "report": At(report),
        "export": At(export),
    }


class Worker:
    """A scheduler with the demo's jobs."""

    def __init__(self, folder: Path, name: str) -> None:
        self._clock = SystemClock()
        self._recorder = Recorder(folder / RECORDS, name)
        # without waiting for the disk: this file need not outlive a power cut
        url = f"sqlite:///{folder / 'store.db'}?synchronous=normal"
        self._scheduler = Scheduler(url, namespace="demo", name=name, grace="5s", lease=LEASE)
        self._scheduler.on("skip", self._note_late)

    async def live(self) -> None:
        """Run until SIGTERM, or until the parent is gone."""
        ended = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
        self._scheduler.every("tick", "1s", self._short)
        self._scheduler.every("tock", "2s", self._short)
        async with self._scheduler:
            self._recorder.write("ready")
            listening = asyncio.create_task(self._listen(ended))
            await ended.wait()
            listening.cancel()

    async def _listen(self, ended: asyncio.Event) -> None:
        """Hear from the parent when the long runs are due; its silence is our end."""
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
        )
        if said := await reader.readline():
            report, export = (from_millis(int(millis)) for millis in said.split())
            self._scheduler.at("report", report, self._long)
            self._scheduler.at("export", export, self._long)
            await reader.read()
        ended.set()

    async def _short(self, ctx: RunContext) -> None:
        self._record("start", ctx)
        self._record("end", ctx)

    async def _long(self, ctx: RunContext) -> None:
        self._record("start", ctx)
        for _ in range(LONG_RUN // _STEP):
            await self._clock.sleep(_STEP.total_seconds())
            if ctx.signal.is_set():
                self._record("stopped", ctx)
                ctx.signal.raise_if_set()
        self._record("end", ctx)

    def _record(self, what: str, ctx: RunContext) -> None:
        self._recorder.write(what, job=ctx.job, slot=ctx.slot, attempt=ctx.attempt)

    def _note_late(self, event: Event) -> None:
        if event.reason in ("late", "missed"):
            self._recorder.write("late", job=event.job, slot=event.slot, count=event.count or 1)


if __name__ == "__main__":
    asyncio.run(Worker(Path(sys.argv[1]), sys.argv[2]).live())
