"""`anarchon-beat` without a command: runs a scheduler until it is told to stop, and hands over.

A stop ends well within the grace period and a few seconds. What still runs then is a thread
that does not look at its signal: its lease is released as the last act before the process
goes, so that a backup need not wait for it to lapse, and two bodies never run side by side.
Nor does the process wait for long for threads that are nobody's run.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import threading
from collections.abc import Callable
from importlib.metadata import version
from typing import NoReturn

from anarchon import AnarchonError, SystemClock
from anarchon.scheduler.signals import caught
from anarchon_beat import answers, logs, streams
from anarchon_beat.beacon import Beacon
from anarchon_beat.config import Loaded, Settings, load
from anarchon_beat.find import CeleryApp
from anarchon_beat.mistakes import INTERRUPTED
from anarchon_beat.origin import mistake_of
from anarchon_beat.pidfile import Pidfile

log = logging.getLogger("anarchon.beat")

#: What a stop may take longer than its grace, and the process longer than that.
_SPARE = 3.0


def run(settings: Settings) -> int:
    """Run what the settings say, and return the exit code."""
    # process 1 of a container ignores a signal it has no handler for; imports may take long
    signal.signal(signal.SIGTERM, _stop_early)
    try:
        loaded = load(settings, first=lambda app: _begin(settings, app), is_start=True)
        # ten thousand slots due at once are as many live tasks: walking over them again and
        # again was a third of what such a burst costs
        gc.set_threshold(10_000, 10, 10)
        pidfile = settings.pidfile or loaded.setting("beat_pidfile")
        with Pidfile(pidfile) if pidfile else contextlib.nullcontext() as held:
            daemon = Daemon(settings, loaded, clean_up=held.release if held else lambda: None)
            return asyncio.run(daemon.live())
    except _StoppedEarly:
        return 0


def _begin(settings: Settings, celery: CeleryApp | None) -> None:
    logs.configure(settings, celery)
    if settings.schedule is not None:
        log.warning("%s has no use here: %s", "--schedule", answers.NO_FILE)
    if settings.max_interval is not None:
        log.warning("%s has no use here: %s", "--max-interval", answers.NO_INTERVAL)


class _StoppedEarly(BaseException):
    """SIGTERM came before there was anything to stop; no user's code may catch it."""


def _stop_early(*_: object) -> NoReturn:
    raise _StoppedEarly


class Daemon:
    """One life of a scheduler in a process of its own."""

    def __init__(self, settings: Settings, loaded: Loaded, *, clean_up: Callable[[], None]) -> None:
        self._settings = settings
        self._scheduler = loaded.scheduler
        self._app = settings.name
        self._kind = _kind_of(settings, loaded)
        self._store_set_by = loaded.store_set_by
        self._clean_up = clean_up
        self._clock = SystemClock()
        self._beacon = Beacon(self._scheduler, self._app, settings.health_file, self._clock)
        self._told, self._told_again = asyncio.Event(), asyncio.Event()
        self._code = 0

    async def live(self) -> int:
        """Run until told to stop; return the exit code. Raises ``Mistake``."""
        with caught(self._on_signal):
            return await self._live()

    async def _live(self) -> int:
        shining = asyncio.create_task(self._beacon.shine())
        try:
            await self._start()
            await self._told.wait()
            await self._stop()
        except AnarchonError as error:
            raise mistake_of(error, self._store_set_by) from error
        finally:
            shining.cancel()
            self._beacon.put_out()
        return self._code

    def _on_signal(self, number: int) -> None:
        # who is impatient with ^C has interrupted, whatever came first
        self._code = INTERRUPTED if number == signal.SIGINT else self._code
        (self._told_again if self._told.is_set() else self._told).set()

    async def _start(self) -> None:
        starting = asyncio.create_task(self._scheduler.start())
        await self._clock.sleep(0)  # the instance has its name once its start has begun
        if not starting.done() or starting.exception() is None:
            self._show_banner()
            log.info("beat: Starting...")
        told = asyncio.create_task(self._told.wait())
        await asyncio.wait({starting, told}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            return
        told.cancel()
        await starting
        self._beacon.state = "running"
        if not self._scheduler.jobs:
            log.warning("there are no jobs: nothing will be scheduled")

    def _show_banner(self) -> None:
        said = self._about()
        first = f"anarchon-beat v{version('anarchon')} is starting."
        if self._settings.log_json:
            # whoever reads JSON, reads all that we write
            log.info("%s %s", first, ", ".join(f"{name}: {value}" for name, value in said.items()))
            return
        lines = [f"    . {name} -> {value}" for name, value in said.items()]
        try:
            streams.say("\n".join([first, "Configuration ->", *lines]))
        except streams.OutputLost as lost:
            streams.give_up()
            log.warning("standard output: %s; what goes there is dropped", lost.reason.strerror)

    def _about(self) -> dict[str, object]:
        scheduler, settings = self._scheduler, self._settings
        set_by = f" ({self._store_set_by})" if self._store_set_by is not None else ""
        return {
            "app": f"{self._app} ({self._kind})",
            "store": f"{scheduler.store}{set_by}",
            "namespace": scheduler.namespace,
            "jobs": len(scheduler.jobs),
            "instance": scheduler.instance,
            "logfile": f"{settings.logfile or '[stderr]'}@%{settings.loglevel}",
        }

    async def _stop(self) -> None:
        log.info("beat: Shutting down...")
        self._beacon.state = "stopping"
        stopping = asyncio.create_task(self._scheduler.stop())
        hurry = asyncio.create_task(self._told_again.wait())
        limit = self._scheduler.grace.total_seconds() + _SPARE
        await asyncio.wait({stopping, hurry}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        if not stopping.done():
            await self._leave()
        hurry.cancel()
        await stopping
        self._end_in_time()

    def _end_in_time(self) -> None:
        """Have the process end soon, though Python would wait for every thread.

        One may ask a name server that does not answer; and our handlers of signals are gone
        by then, without which process 1 of a container ignores SIGTERM.
        """
        patience = threading.Timer(_SPARE, self._end)
        patience.daemon = True
        # where no thread can be started, it ends when the others do
        with contextlib.suppress(RuntimeError):
            patience.start()

    async def _leave(self) -> NoReturn:
        """End the process although something of ours still runs."""
        log.warning("leaving %r behind; its leases are released", self._scheduler)
        try:
            await self._scheduler.abandon()
        except Exception as error:
            log.warning("not released: %r; the leases will lapse", error)
        self._end()

    def _end(self) -> NoReturn:
        """Clean up and end the process, whatever its threads do."""
        try:
            self._beacon.put_out()
            self._clean_up()
            logging.shutdown()
            streams.flush()
        finally:
            os._exit(self._code)


def _kind_of(settings: Settings, loaded: Loaded) -> str:
    if loaded.celery is not None:
        return "Celery"
    return "Dramatiq" if settings.dramatiq else "Scheduler"
