"""One private server process: start, stop, restart on the same data, kill, pause, resume."""

import os
import select
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from random import SystemRandom

from tests.servers.binaries import Binaries
from tests.servers.catalog import Recipe
from tests.servers.errors import StartFailed

HOST = "127.0.0.1"
_LEASH = str(Path(__file__).with_name("leash.py"))
_PATIENCE = 30.0
_ATTEMPTS = 5
# Below the range that the kernel hands out to clients, so that nobody takes the port while
# the server is down for a moment.
_PORTS = range(15_000, 32_000)
# Nothing of ours may depend on the server's zone or language. ASCII is the oddest language that
# every machine has, and Redis 8 refuses one that is missing.
_HOSTILE = {"TZ": "Pacific/Chatham", "LANG": "POSIX", "LANGUAGE": "tr"}

# The kernel ties a leashed child to the *thread* that started it: this one lasts until the
# interpreter ends, whichever thread asks for a server.
_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="test-servers")


class Server(ABC):
    """A server of one version on a port of its own; `url` is how a client reaches it."""

    user = 0
    """The user it runs as, where it must not be ours."""
    stop_signal = signal.SIGTERM

    def __init__(
        self, recipe: Recipe, binaries: Binaries, folder: Path, options: Sequence[str] = ()
    ) -> None:
        self.name = recipe.name
        self.kind = recipe.kind
        self.folder = folder
        self.binaries = binaries
        self.port = 0
        self.log = folder / "log"
        self._options = tuple(options)
        self._process: subprocess.Popen[bytes] | None = None
        self._freezer: subprocess.Popen[bytes] | None = None

    def __repr__(self) -> str:
        state = "paused" if self._freezer else "running" if self.is_running else "stopped"
        return f"<{type(self).__name__} {self.name}: {state}, port {self.port}>"

    @property
    def is_running(self) -> bool:
        """Whether the process lives, paused or not."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The server's process id."""
        assert self._process is not None, f"{self.name} was never started"
        return self._process.pid

    @abstractmethod
    def url(self) -> str:
        """Return the address as a client's configuration spells it."""

    @abstractmethod
    def _command(self) -> list[str]:
        """Return the command line for `self.port`."""

    @abstractmethod
    def _is_ready(self) -> bool:
        """Tell whether a client would be served; may raise `OSError`."""

    def start(self) -> None:
        """Start, on the data there is and on the port it had; return when clients are served."""
        if self.is_running:
            return
        if self.port:
            self._start()
        else:
            self.log.touch()
            self._prepare()
            self._start_on_a_free_port()

    def stop(self) -> None:
        """End it as an operator would, and wait for the end."""
        self._end(self.stop_signal)

    def kill(self) -> None:
        """End it with SIGKILL: what it did not write down is lost."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop it if it runs, and start it on the same data and port."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Freeze it: connections stay open and nothing answers, until `resume`."""
        if self._freezer is not None:
            return
        # The parent first: what is frozen has no more children.
        _signal(self.pid, signal.SIGSTOP)
        family = family_of(self.pid)
        # Postgres's children outlive it while frozen, so what thaws them must outlive *us*:
        # the shell's input ends when we resume, and also when we die.
        self._freezer = subprocess.Popen(
            ["sh", "-c", 'read -r _; kill -CONT "$@" 2>/dev/null', "sh", *map(str, family)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        for pid in family[1:]:
            _signal(pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused server go on."""
        if self._freezer is None:
            return
        # A line, not only the end of input: a forked child of ours may hold the pipe open too.
        self._freezer.communicate(b"\n")
        self._freezer = None

    def _prepare(self) -> None:  # noqa: B027  # most servers make their data when they start
        """Make the data, before the first start."""

    def _start_on_a_free_port(self) -> None:
        for attempt in range(_ATTEMPTS):
            self.port = free_port()
            try:
                self._start()
                return
            except StartFailed:
                # Somebody may have taken the port since we looked.
                if attempt == _ATTEMPTS - 1 or not self._log_says_port_is_taken():
                    raise

    def _start(self) -> None:
        self._process = self._spawn(self._command())
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            if not self.is_running:
                raise StartFailed(f"{self.name} ended at once: {self._tail()}")
            try:
                if self._is_ready():
                    return
            except OSError:
                pass
            time.sleep(0.01)
        self.kill()
        raise StartFailed(f"{self.name} served nobody within {_PATIENCE:.0f} s: {self._tail()}")

    def _run(self, command: Sequence[str]) -> None:
        """Run a program of the server to its end."""
        process = self._spawn(command)
        if process.wait(_PATIENCE) != 0:
            raise StartFailed(f"{self.name}: {command[0]} failed: {self._tail()}")

    def _spawn(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        leash = [sys.executable, "-I", "-S", _LEASH, str(os.getpid()), str(self.user)]
        with open(self.log, "ab") as log:
            return _starter.submit(
                subprocess.Popen,
                [*leash, *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=self._environment(),
                start_new_session=True,
            ).result()

    def _environment(self) -> Mapping[str, str]:
        return {"PATH": os.defpath, **_HOSTILE, **self.binaries.environment()}

    def _end(self, how: signal.Signals) -> None:
        if not self.is_running:
            return
        assert self._process is not None
        if how is signal.SIGKILL:
            self._kill_family()
        else:
            _signal(self.pid, how)
        self.resume()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            for pid in family_of(self.pid):
                _signal(pid, signal.SIGKILL)
            self._process.wait()

    def _kill_family(self) -> None:
        """Kill it and all below it, and wait until none holds its memory or port."""
        # The parent first: what is frozen has no more children.
        _signal(self.pid, signal.SIGSTOP)
        # All of them: a frozen child would never notice that its parent is gone.
        family = family_of(self.pid)
        with ExitStack() as handles:
            ends = [end for pid in family if (end := _end_of(pid, handles)) is not None]
            for pid in family:
                _signal(pid, signal.SIGKILL)
            for end in ends:
                select.select([end], [], [], _PATIENCE)

    def _log_says_port_is_taken(self) -> bool:
        return "in use" in self.log.read_text(errors="replace")

    def _tail(self) -> str:
        return self.log.read_text(errors="replace")[-2000:].strip()


def exchange(port: int, request: bytes, size: int = 100) -> bytes:
    """Send a request to a server of this machine and return the start of its answer."""
    with socket.create_connection((HOST, port), timeout=1) as connection:
        connection.sendall(request)
        return connection.recv(size)


def free_port() -> int:
    """Return a port that nobody has, and that the kernel gives no client."""
    # Not the seeded generator: all test processes are seeded alike, and would pick alike.
    for port in SystemRandom().sample(_PORTS, k=200):
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    raise StartFailed("no free port on 127.0.0.1")


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def _end_of(pid: int, handles: ExitStack) -> int | None:
    """Return what becomes readable when a process ends; none if it has."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    handles.callback(os.close, handle)
    return handle


def family_of(pid: int) -> list[int]:
    """Return a process and all below it, each before its children."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    family = [pid]
    for member in family:
        family.extend(children.get(member, ()))
    return family
