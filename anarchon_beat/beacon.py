"""Shows, by a small file, that the daemon lives and how it stands."""

from __future__ import annotations

import logging
import os

from anarchon import Clock, NotRunning, Scheduler
from anarchon_beat import pulse
from anarchon_beat.pulse import Pulse

log = logging.getLogger("anarchon.beat")

_LOOK, _REWRITE = 1.0, 10.0


class Beacon:
    """Writes what `health` reads, as long as the daemon's loop turns."""

    def __init__(self, scheduler: Scheduler, app: str, path: str | None, clock: Clock) -> None:
        self._scheduler = scheduler
        self._app = app
        self._path = path
        self._clock = clock
        self._pid = os.getpid()
        self._written: tuple[str, bool] = ("", False)
        self._written_at = float("-inf")
        self._fails = False
        self.state = "starting"

    async def shine(self) -> None:
        """Keep the file fresh until cancelled; a file that cannot be written hurts nobody."""
        while True:
            self._try_to_show()
            await self._clock.sleep(_LOOK)

    def _try_to_show(self) -> None:
        try:
            self.show()
        except OSError as error:
            if not self._fails:
                log.warning("no health file, so `anarchon-beat health` will fail: %s", error)
            self._fails = True
            return
        if self._fails:
            log.info("the health file is written again")
        self._fails = False

    def show(self) -> None:
        """Write the file if there is something new to say, or it has become old."""
        now = self._clock.monotonic()
        said = (self.state, self.state == "running" and self._scheduler.is_ready)
        if said == self._written and now - self._written_at < _REWRITE:
            return
        # from now on it is tried at every look until it is written
        self._written_at = float("-inf")
        if self._path is None:
            # what sweeps temporary files sweeps folders too
            pulse.make_folder()
            if not self._has_written:
                _sweep()
        pulse.write(self._where, self._pulse(*said))
        self._written, self._written_at = said, now

    @property
    def _has_written(self) -> bool:
        return bool(self._written[0])

    @property
    def _where(self) -> str:
        return self._path if self._path is not None else pulse.path_of(self._pid)

    def _pulse(self, state: str, ready: bool) -> Pulse:
        return Pulse(
            version=pulse.VERSION,
            pid=self._pid,
            born=pulse.born(self._pid),
            app=self._app,
            namespace=self._scheduler.namespace,
            state=state,
            ready=ready,
            woken=pulse.now() - self._silent(state),
        )

    def _silent(self, state: str) -> float:
        # timers that are being started or stopped do not wake; this loop did just now
        if state != "running":
            return 0.0
        try:
            return self._scheduler.seconds_since_woken()
        except NotRunning:
            return 0.0

    def put_out(self) -> None:
        """Remove the file."""
        if self._has_written:
            pulse.remove(self._where)


def _sweep() -> None:
    """Remove what daemons left that were killed."""
    for one in pulse.read_all():
        if not pulse.is_alive(one):
            pulse.remove(pulse.path_of(one["pid"]))
