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
        self.state = "starting"

    async def shine(self) -> None:
        """Keep the file fresh until cancelled; a file that cannot be written hurts nobody."""
        try:
            if self._path is None:
                self._path = os.path.join(pulse.make_folder(), f"{self._pid}.json")
                _sweep()
            while True:
                self.show()
                await self._clock.sleep(_LOOK)
        except OSError as error:
            log.warning("no health file, so `anarchon-beat health` will fail: %s", error)

    def show(self) -> None:
        """Write the file if there is something new to say, or it has become old."""
        now = self._clock.monotonic()
        said = (self.state, self.state == "running" and self._scheduler.is_ready)
        if self._path is None or (said == self._written and now - self._written_at < _REWRITE):
            return
        pulse.write(self._path, self._pulse(*said))
        self._written, self._written_at = said, now

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
        if self._path is not None:
            pulse.remove(self._path)


def _sweep() -> None:
    """Remove what daemons left that were killed."""
    for one in pulse.read_all():
        if not pulse.is_alive(one):
            pulse.remove(pulse.path_of(one["pid"]))
