"""Calls that are given up midway, as a deadline does it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any


async def give_up(call: Coroutine[Any, Any, Any], after: int) -> None:
    """Begin a call, let others go so many times, and cancel it."""
    task = asyncio.ensure_future(call)
    for _ in range(after):
        await let_others_go()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def let_others_go() -> None:
    """Let everything run that is ready to; longer than a bare yield, where threads answer."""
    loop = asyncio.get_running_loop()
    waiter = loop.create_future()
    loop.call_later(0.0002, waiter.set_result, None)
    await waiter
