"""A process that claims, and ends, each of many slots at the instant it is due.

Asked and answering as ``anarchon_contract.claims.contender`` is, whose stores have no leases.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from anarchon.backends.libsql import LibSQLBackend
from anarchon.clock import SystemClock, from_millis, to_millis
from anarchon.run import Overlap
from anarchon.store import Outcome
from anarchon_contract.leases.questions import DAY, Asker

_CLOCK = SystemClock()


async def contend(task: dict[str, Any]) -> list[int]:
    store = LibSQLBackend(task["url"]).connect(task["namespace"])
    await store.open()
    try:
        print("ready", flush=True)  # noqa: T201
        first = int(await asyncio.to_thread(sys.stdin.readline))
        slots = [first + count * task["gap"] for count in range(task["slots"])]
        return [slot for slot in slots if await _wins(Asker(store), slot, task["name"])]
    finally:
        await store.close()


async def _wins(ask: Asker, slot: int, name: str) -> bool:
    ahead = slot - to_millis(_CLOCK.wall())
    if ahead > 0:
        await _CLOCK.sleep(ahead / 1000)
    outcome = Outcome.NONE
    while outcome is Outcome.NONE:
        answer = await ask.claim(
            from_millis(slot), f"{name} {slot}", overlap=Overlap.ALLOW, within=DAY
        )
        outcome = answer.outcome
    return outcome is Outcome.WON and await ask.finish(from_millis(slot), f"{name} {slot}")


if __name__ == "__main__":
    print(json.dumps(asyncio.run(contend(json.loads(sys.stdin.readline())))))  # noqa: T201
