"""Eight processes that claim the same slots at the instants they are due; any store will do."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import Counter

from anarchon.clock import SystemClock, to_millis

PROCESSES = 8


async def contend(
    url: str,
    namespace: str,
    *,
    slots: int,
    gap: int,
    program: str = "anarchon_contract.claims.contender",
) -> Counter[int]:
    """Let 8 processes claim slots so many milliseconds apart; count the wins of each slot."""
    processes = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", program),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        for _ in range(PROCESSES)
    ]
    try:
        for number, process in enumerate(processes):
            task = {
                "url": url,
                "namespace": namespace,
                "name": f"p{number}",
                "slots": slots,
                "gap": gap,
            }
            assert process.stdin is not None
            process.stdin.write(f"{json.dumps(task)}\n".encode())
        for process in processes:
            assert process.stdout is not None
            assert await process.stdout.readline() == b"ready\n"
        first = to_millis(SystemClock().wall()) + 100
        told = await asyncio.gather(*(one.communicate(b"%d\n" % first) for one in processes))
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
                await process.wait()
    return Counter(slot for said, _ in told for slot in json.loads(said))
