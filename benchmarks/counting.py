"""A backend that counts what is asked of it, and tells when nothing is left to ask."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, TypeVar

from anarchon.store import Backend, Claim, ClaimAnswer, Mode, Outcome, Reply
from anarchon.testing.passing import Call, PassingBackend

T = TypeVar("T")


class CountingBackend(PassingBackend):
    """Another backend, and how often each of its calls was made through here.

    ``trips`` counts calls, ``asked`` the questions in them. A claim call in which everything
    is a takeover claim is a ``look``.
    """

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self.trips: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self._settled: set[str] = set()
        self._more_settled = asyncio.Event()

    async def pass_on(self, verb: str, call: Call[T]) -> T:
        if verb != "open":
            name = "look" if verb == "claim" and all(map(_is_look, call.questions)) else verb
            self.trips[name] += 1
            self.asked[name] += len(call.questions)
        reply = await super().pass_on(verb, call)
        if isinstance(reply, Reply) and verb in ("claim", "finish"):
            for asked, answer in zip(call.questions, reply.answers, strict=True):
                self._hear(asked, answer)
        return reply

    def _hear(self, asked: Any, answer: Any) -> None:
        if isinstance(answer, ClaimAnswer):
            self.asked[f"heard {answer.outcome}"] += 1
            if answer.outcome is not Outcome.DONE:
                return
        self._settled.add(asked.job)
        self._more_settled.set()

    async def all_settled(self, jobs: int) -> None:
        """Wait until so many jobs have no more to be asked, each having one slot."""
        while len(self._settled) < jobs:
            self._more_settled.clear()
            await self._more_settled.wait()


def _is_look(asked: object) -> bool:
    return isinstance(asked, Claim) and asked.mode is Mode.TAKEOVER
