"""A process that claims the same slots as its rivals, each at the instant it is due.

``python -m tests.cluster.rival`` reads a task as JSON from its input, says ``ready`` once its
store is open, waits for a line with the first slot in milliseconds, and prints what it won.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from anarchon.backends.redis import RedisBackend, RedisStore
from anarchon.clock import from_millis
from anarchon.errors import OutcomeUnknown, StoreUnavailable
from anarchon.run import Overlap, RunState
from anarchon.store import Claim, Mode, Outcome, Terms
from tests.programs import ROOT

NAMESPACE = "rivals"
PROCESSES = 8
_TERMS = Terms(timedelta(minutes=5), Overlap.ALLOW, 3, RunState.RUNNING)


async def compete(
    url: str, jobs: Sequence[str], *, instants: int, gap: int, meanwhile: Callable[[], object]
) -> Counter[str]:
    """Let 8 processes claim the slots of all jobs; count who won each.

    ``meanwhile`` is done on a thread while they do.
    """
    processes = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.cluster.rival"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=ROOT,
        )
        for _ in range(PROCESSES)
    ]
    try:
        for number, process in enumerate(processes):
            task = {"url": url, "jobs": jobs, "instants": instants, "gap": gap, "name": number}
            assert process.stdin is not None
            process.stdin.write(f"{json.dumps(task)}\n".encode())
        for process in processes:
            assert process.stdout is not None
            assert await process.stdout.readline() == b"ready\n"
        first = int(time.time() * 1000) + 200
        doing = asyncio.create_task(asyncio.to_thread(meanwhile))
        told = await asyncio.gather(*(one.communicate(b"%d\n" % first) for one in processes))
        await doing
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
                await process.wait()
    return Counter(won for said, _ in told for won in json.loads(said))


async def _contend(task: dict[str, Any]) -> list[str]:
    store = RedisBackend(task["url"]).connect(NAMESPACE)
    await store.open()
    won: list[str] = []
    try:
        _say("ready")
        first = int(await asyncio.to_thread(sys.stdin.readline))
        for count in range(task["instants"]):
            won += await _claim(store, task, first + count * task["gap"])
    finally:
        await store.close()
    return won


async def _claim(store: RedisStore, task: dict[str, Any], slot: int) -> list[str]:
    """Claim a slot of all jobs; asked again under the same tokens until all are answered."""
    await asyncio.sleep(max(0.0, slot / 1000 - time.time()))
    name = f"p{task['name']}"
    claims = [
        Claim(
            *(job, from_millis(slot), f"{name} {job} {slot}", Mode.SCHEDULED, name, _TERMS),
            within=timedelta(minutes=5),
        )
        for job in task["jobs"]
    ]
    won = []
    while claims:
        try:
            answers = (await store.claim(claims)).answers
        except (StoreUnavailable, OutcomeUnknown):
            await asyncio.sleep(0.01)
            continue
        heard = list(zip(claims, answers, strict=True))
        won += [f"{claim.job} {slot}" for claim, a in heard if a.outcome is Outcome.WON]
        # too early by the clock of the store
        claims = [claim for claim, answer in heard if answer.outcome is Outcome.NONE]
    return won


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _say(json.dumps(asyncio.run(_contend(json.loads(sys.stdin.readline())))))
