"""A place where instances live one after another: started, killed, frozen, stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from pathlib import Path

from anarchon.job import Job
from anarchon.testing.evidence import Life
from tests.cluster.clocks import WallClock
from tests.cluster.true_time import now
from tests.cluster.ways import Way

BIN = Path(sys.executable).parent
_LEASH = Path(__file__).parents[1] / "servers" / "leash.py"


def spawn(
    command: Sequence[str | Path], folder: Path, output: Path, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start a process that dies with this one."""
    leash = [sys.executable, "-I", "-S", str(_LEASH), str(os.getpid()), "0"]
    with output.open("ab") as out:
        return subprocess.Popen(
            [*leash, *map(str, command)],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )


class State(Enum):
    """Where the instance of a place stands."""

    DOWN = "down"
    STARTING = "starting"
    UP = "up"
    FROZEN = "frozen"
    STOPPING = "stopping"


@dataclass
class Start:
    """One instance: its name, and when it was ready and when it ended."""

    name: str
    began: datetime
    ready: datetime | None = None
    end: datetime | None = None
    killed: bool = False


@dataclass
class Kind:
    """What runs at a place: a program, the jobs it declares, and how it shows that it is ready."""

    name: str
    command: Sequence[str | Path]
    jobs: Sequence[Job]


@dataclass(eq=False)
class Place:
    """One place of a cluster; every start there makes a new instance."""

    number: int
    kind: Kind
    folder: Path
    environment: Mapping[str, str]
    way: Way
    wall_clock: WallClock | None = None
    #: A PYTHONPATH of other code, which every other start here runs: a release, and its way back.
    other_code: str | None = None
    state: State = State.DOWN
    starts: list[Start] = field(default_factory=list)
    #: When it showed that the store answers, and when that it does not.
    shown: list[tuple[datetime, bool]] = field(default_factory=list)
    _process: subprocess.Popen[bytes] | None = None

    def __str__(self) -> str:
        return f"{self.kind.name}{self.number}"

    @property
    def instance(self) -> str:
        """The name of the instance there is, or was last."""
        return self.starts[-1].name

    @property
    def _health(self) -> Path:
        return self.folder / f"{self}.health"

    def log(self) -> str:
        return (self.folder / f"{self}.log").read_text(errors="replace")

    def start(self) -> None:
        """Start a new instance; `look` finds out when it is ready."""
        assert self.state is State.DOWN, f"{self} is {self.state}"
        self._health.unlink(missing_ok=True)
        name = f"{self}.{len(self.starts)}"
        environment = {
            **self.environment,
            "CLUSTER_INSTANCE": name,
            "CLUSTER_HEALTH": str(self._health),
        }
        if self.wall_clock is not None:
            environment.update(self.wall_clock.environment())
        if self.other_code is not None and len(self.starts) % 2 == 0:
            environment["PYTHONPATH"] = self.other_code
        command = [*self.way.enter, *self.kind.command, *self._more_options(name)]
        self._process = spawn(command, self.folder, self.folder / f"{self}.log", environment)
        self.starts.append(Start(name, now()))
        self.state = State.STARTING

    def _more_options(self, name: str) -> Sequence[str | Path]:
        """Return what an instance of this name is told besides."""
        return ["--health-file", self._health]

    def look(self) -> None:
        """See whether it has become ready; an end that nobody asked for is a failure."""
        if self.state is State.DOWN:
            return
        code = self._child.poll()
        is_asked = self.state is State.STOPPING or "CLUSTER_DIES_AFTER_SEND" in self.environment
        if code is not None and not is_asked:
            raise AssertionError(f"{self.instance} ended by itself, with {code}: {self.log()}")
        is_ready = self._is_ready()
        if not self.shown or self.shown[-1][1] != is_ready:
            self.shown.append((now(), is_ready))
        if self.state is State.STARTING and is_ready:
            self.starts[-1].ready = now()
            self.state = State.UP

    def _is_ready(self) -> bool:
        try:
            told = json.loads(self._health.read_text())
        except (OSError, ValueError):
            return False
        return told["pid"] == self._child.pid and bool(told["ready"])

    def instances_between(self, start: datetime, end: datetime) -> list[str]:
        """Return the names of those who lived here at some moment between."""
        return [
            one.name
            for one in self.starts
            if one.began <= end and (one.end is None or one.end >= start)
        ]

    def lived_through(self, start: datetime, end: datetime) -> bool:
        """Tell whether one instance was ready all the while."""
        return any(
            one.ready is not None and one.ready <= start and (one.end is None or one.end >= end)
            for one in self.starts
        )

    def showed_ready_at(self, at: datetime) -> bool:
        """Tell whether the last it showed was that the store answers."""
        return [is_ready for moment, is_ready in self.shown if moment <= at][-1:] == [True]

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._child.kill()
        self._child.wait()
        self._is_dead()

    def freeze(self) -> None:
        self._child.send_signal(signal.SIGSTOP)
        self.state = State.FROZEN

    def thaw(self) -> None:
        self._child.send_signal(signal.SIGCONT)
        self.state = State.UP

    def tell_to_stop(self) -> None:
        """Ask for a graceful end; `has_stopped` tells when it is there."""
        self.starts[-1].end = now()
        self._child.send_signal(signal.SIGTERM)
        self.state = State.STOPPING

    def has_stopped(self) -> bool:
        code = self._child.poll()
        if code is None:
            return False
        assert code == 0, f"{self.instance} was told to stop and ended with {code}: {self.log()}"
        self._clean_up()
        self.state = State.DOWN
        return True

    def end(self) -> None:
        """End it whatever it is doing; for when a test is over."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait()
            self._clean_up()

    def _clean_up(self) -> None:
        if self.wall_clock is not None:
            self.wall_clock.clean_up_after(self._child.pid)

    def has_killed_itself(self) -> bool:
        """Tell whether it has come to the end that it was told to come to."""
        code = self._child.poll()
        if code is None:
            return False
        assert code == -signal.SIGKILL, f"{self.instance} ended with {code}: {self.log()}"
        self._is_dead()
        return True

    def _is_dead(self) -> None:
        self._clean_up()
        self.starts[-1].end = now()
        self.starts[-1].killed = True
        self.state = State.DOWN

    def shown_name(self) -> str:
        """Return the id that the history shows for the last start, as its banner tells it."""
        banners = [line for line in self.log().splitlines() if ". instance -> " in line]
        return banners[-1].split("-> ")[1].strip()

    def lives(self, first_words: Mapping[str, datetime]) -> list[Life]:
        """Return the lives there were; who did something was ready by then, whatever it showed."""
        lives = []
        for start in self.starts:
            known = [m for m in (start.ready, first_words.get(start.name)) if m is not None]
            if known:
                lives.append(Life(start.name, self.kind.jobs, min(known), start.end, start.killed))
        return lives

    @property
    def _child(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, f"{self} was never started"
        return self._process
