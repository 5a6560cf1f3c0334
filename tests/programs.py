"""Python programs in processes of their own, whose output is read line by line."""

import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_END = None


class Program:
    """`python -m MODULE ARGUMENTS` in a folder; never blocked by output that nobody reads."""

    def __init__(self, folder: Path, module: str, *arguments: str, **environment: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=folder,
            env={
                **os.environ,
                "TMPDIR": str(folder),
                "PYTHONPATH": f"{ROOT}:{ROOT / 'integrations'}",
                **environment,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.pid = self._process.pid
        self.output = ""
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(_END)

    def read_until(self, text: str) -> None:
        """Read lines until one of them holds this text."""
        while (line := self._lines.get()) is not _END:
            self.output += line
            if text in line:
                return
        raise AssertionError(f"{text!r} was never said:\n{self.output}")

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def end(self, number: signal.Signals | None = None) -> int:
        """Send a signal, if there is one, read the rest, and return the exit code."""
        if number is not None:
            self.send(number)
        code = self._process.wait()
        while (line := self._lines.get()) is not _END:
            self.output += line
        self._reader.join()
        return code

    def kill(self) -> None:
        """Leave nothing behind."""
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._reader.join(5)
        self._process.stdout.close()
