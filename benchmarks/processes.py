"""The processes of one contestant: started together, looked at, and ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from benchmarks.contestants import HEALTH, Contestant

_ROOT = Path(__file__).resolve().parent.parent
_PATIENCE = 20.0
#: A process that has started takes less of a core than this, looked at for so many seconds.
_CALM, _LOOK = 0.5, 1.5
_TICK = os.sysconf("SC_CLK_TCK")


class Ended(Exception):
    """A contestant's process ended by itself, and what it said last."""


class Processes:
    """So many processes of a contestant, each in a folder of its own."""

    def __init__(self, contestant: Contestant, spec: Mapping[str, Any]) -> None:
        self._contestant = contestant
        own = dict(contestant.spec)
        settings = {**spec.get("settings", {}), **own.pop("settings", {})}
        self.spec = {"ours": None, **spec, **own, "settings": settings}
        self._folder = tempfile.TemporaryDirectory(prefix="anarchon-benchmark-")
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        self._run(self._contestant.before, "before")
        each = self._contestant.each or ((),) * self._contestant.instances
        for number, arguments in enumerate(each):
            command = (*self._contestant.command, *arguments)
            self._running.append(self._start(command, str(number)))
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running:
            for number in (signal.SIGCONT, signal.SIGTERM):
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(number)
        until = time.monotonic() + _PATIENCE
        for process in self._running:
            try:
                process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._folder.cleanup()

    def are_ready_for(self, slot: float) -> bool:
        """Wait until shortly before a slot, and tell whether they have started by then.

        Those that do not tell are still at it if they are not calm.
        """
        time.sleep(max(0.0, slot - _LOOK - 0.5 - time.time()))
        if self._contestant.tells_ready:
            return all(self._is_ready(number) for number in range(len(self._running)))
        try:
            before = self._cpu()
            time.sleep(_LOOK)
            return self._cpu() - before < _CALM * _LOOK
        except OSError:
            # a system that does not show it
            return True

    def _is_ready(self, number: int) -> bool:
        try:
            said = json.loads((self._folder_of(str(number)) / HEALTH).read_text())
        except OSError:
            return False
        return bool(said["ready"])

    def _cpu(self) -> float:
        return sum(_cpu_of(process.pid) for process in self._running)

    def of(self, pid: int) -> int:
        """Return which of them has this process id; raises ``Ended`` if none has."""
        for number, process in enumerate(self._running):
            if process.pid == pid:
                return number
        raise Ended(f"{self._contestant.label}: {pid} is none of its processes")

    def signal(self, number: int, which: signal.Signals) -> None:
        """Send a signal to one of them."""
        self._running[number].send_signal(which)

    def check(self) -> None:
        """Raise ``Ended`` if one of them has failed."""
        for number, process in enumerate(self._running):
            if (process.poll() or 0) > 0:
                raise Ended(self._said(str(number)))

    def _run(self, command: tuple[str, ...], name: str) -> None:
        if command and self._start(command, name).wait() != 0:
            raise Ended(self._said(name))

    def _said(self, name: str) -> str:
        said = (self._folder_of(name) / "log").read_text(errors="replace").strip()
        return f"{self._contestant.label} ended: {said.rpartition(chr(10))[2]}"

    def _folder_of(self, name: str) -> Path:
        return Path(self._folder.name) / name

    def _start(self, command: tuple[str, ...], name: str) -> subprocess.Popen[bytes]:
        folder = self._folder_of(name)
        folder.mkdir()
        path = f"{_ROOT}:{_ROOT / 'integrations'}" if self.spec["ours"] else str(_ROOT)
        with open(folder / "log", "wb") as log:
            return subprocess.Popen(
                command,
                cwd=folder,
                env={
                    **os.environ,
                    "PYTHONPATH": path,
                    "TMPDIR": str(folder),
                    "ANARCHON_BENCHMARK": json.dumps(self.spec),
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )


def fill(contestant: Contestant, spec: Mapping[str, Any]) -> None:
    """Make what a contestant starts with, which may take long; raises ``Ended``."""
    if contestant.fill:
        # as what comes before nobody
        with Processes(replace(contestant, before=contestant.fill, instances=0), spec):
            pass


def _cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK
