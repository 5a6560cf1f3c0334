"""A process that claims each of many slots at the instant it is due: one of several.

``python -m anarchon_contract.claims.contender`` reads a task as JSON from its input, says ``ready``
once its store is open, waits for a line with the first slot in milliseconds, and prints the slots
it won.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from anarchon.backends import open_backend
from anarchon.clock import SystemClock, from_millis, to_millis
from anarchon.store import Outcome
from anarchon_contract.claims.questions import Asker

_CLOCK = SystemClock()


async def contend(task: dict[str, Any]) -> list[int]:
    """Claim all slots, in their order, and return those that were won."""
    store: Any = open_backend(task["url"]).connect(task["namespace"])
    await store.open()
    try:
        _say("ready")
        first = int(await asyncio.to_thread(sys.stdin.readline))
        slots = [first + count * task["gap"] for count in range(task["slots"])]
        return [slot for slot in slots if await _wins(Asker(store), slot, task["name"])]
    finally:
        await store.close()


async def _wins(ask: Asker, slot: int, name: str) -> bool:
    ahead = slot - to_millis(_CLOCK.wall())
    if ahead > 0:
        await _CLOCK.sleep(ahead / 1000)
    while True:
        # a lost reply is asked for again, with the same token
        answer = await ask.claim(from_millis(slot), f"{name} {slot}", instance=name)
        if answer.outcome is not Outcome.NONE:
            return answer.outcome is Outcome.WON
        await _CLOCK.sleep(0.0005)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _say(json.dumps(asyncio.run(contend(json.loads(sys.stdin.readline())))))
