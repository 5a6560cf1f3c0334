"""An instance in a process of its own, as the program that measures it sees it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parent.parent
_PATIENCE = 60.0


class Child:
    """A process that runs one module of ``benchmarks.instances``; it tells facts line by line."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def told(self, what: str, patience: float = _PATIENCE) -> dict[str, Any]:
        """Return the next fact of a kind; raises if the process ends or is silent too long."""
        assert self._process.stdout is not None
        while True:
            line = await asyncio.wait_for(self._process.stdout.readline(), patience)
            if not line:
                raise RuntimeError(f"an instance ended before it told {what!r}")
            fact: dict[str, Any] = json.loads(line)
            if fact["what"] == what:
                return fact

    def say(self, **fact: object) -> None:
        """Tell the instance what it waits for."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(fact).encode() + b"\n")

    def kill(self) -> None:
        """End it as `kill -9` does."""
        if self._process.returncode is None:
            self._process.kill()


@asynccontextmanager
async def children(module: str, specs: list[dict[str, object]]) -> AsyncIterator[list[Child]]:
    """Start one process a specification, and kill what is left of them at the end."""
    started: list[Child] = []
    processes: list[asyncio.subprocess.Process] = []
    try:
        for spec in specs:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", f"benchmarks.instances.{module}", json.dumps(spec)),
                cwd=_ROOT,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                # ten thousand lags are one line
                limit=2**22,
            )
            processes.append(process)
            started.append(Child(process))
        yield started
    finally:
        for child in started:
            child.kill()
        await asyncio.gather(*(process.wait() for process in processes))
