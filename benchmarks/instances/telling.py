"""How an instance and the program that measures it talk: a line of JSON a fact."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

Spec = dict[str, Any]


def tell(what: str, **facts: object) -> None:
    """Tell a fact."""
    print(json.dumps({"what": what, **facts}), flush=True)


async def hear() -> Spec:
    """Wait for a fact."""
    line = await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    if not line:
        sys.exit("whoever measured this is gone")
    fact: Spec = json.loads(line)
    return fact


def run(scenario: Callable[[Spec], Awaitable[None]]) -> None:
    """Run a scenario with what the command line says."""
    spec = json.loads(sys.argv[1])
    asyncio.run(_run(scenario, spec))


async def _run(scenario: Callable[[Spec], Awaitable[None]], spec: Spec) -> None:
    await scenario(spec)
