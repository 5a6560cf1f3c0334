"""The store of the searched world: the rules, asked in its numbers and texts.

The same question about the same record is asked once; its answer is remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from anarchon import rules, tracked
from anarchon.record import JobRecord, Step
from anarchon.run import RunState
from anarchon.store import Begin, Claim, Finish, Mode, Outcome, Release, Renewal, Terms, Waiting
from tests.simulation.world import STEP, WITHIN, Stored, World, slot_of, text, time_of

Rule = Callable[[JobRecord, Any, datetime], Step[Any]]
Told = tuple[bool, Stored]


@dataclass(frozen=True)
class Rules:
    """The rules that are searched; a flawed one takes the place of a real one."""

    claim: Rule = rules.claim
    renew: Rule = rules.renew
    finish: Rule = rules.finish
    release: Rule = rules.release
    begin: Rule = tracked.begin
    prune: Callable[[JobRecord, datetime], Step[Any]] = rules.prune


@dataclass
class Store:
    """Answers, and says what is kept afterwards."""

    rules: Rules
    terms: Terms
    _known: dict[Hashable, Any] = field(default_factory=dict)

    def claim(
        self, world: World, slot: int, token: int, mode: Mode
    ) -> tuple[Outcome, bool, Stored]:
        """Claim; say also whether an attempt was started by it."""
        known = world.stored, world.phase, slot, token, mode
        if known not in self._known:
            within = 9 * STEP if mode is Mode.CATCH_UP else WITHIN
            asked = Claim("job", slot_of(slot), str(token), mode, "", self.terms, within)
            before = world.stored.record(self.terms)
            step = self.rules.claim(before, asked, time_of(world.phase))
            was, is_now = before.runs.get(asked.slot), step.record.runs.get(asked.slot)
            started = is_now is not None and is_now.attempt > (was.attempt if was else 0)
            self._known[known] = step.answer.outcome, started, self._after(world, step)
        told: tuple[Outcome, bool, Stored] = self._known[known]
        return told

    def finish(
        self, world: World, slot: int, token: int, state: RunState, nonce: int | None = None
    ) -> Told:
        def question() -> Finish:
            return Finish("job", slot_of(slot), str(token), state, nonce=text(nonce))

        return self._ask(self.rules.finish, world, (slot, token, state, nonce), question)

    def release(self, world: World, slot: int, token: int) -> Told:
        def question() -> Release:
            return Release("job", slot_of(slot), str(token))

        return self._ask(self.rules.release, world, (slot, token), question)

    def renew(self, world: World, slot: int, token: int, nonce: int | None = None) -> Told:
        def question() -> Renewal:
            return Renewal("job", slot_of(slot), str(token), holder=text(nonce))

        return self._ask(self.rules.renew, world, (slot, token, nonce), question)

    def mark(
        self, world: World, slot: int, token: int, nonce: int | None = None, retry: int = 0
    ) -> Told:
        def question() -> Renewal:
            waiting = Waiting(text(nonce), retry)
            return Renewal("job", slot_of(slot), str(token), waiting=waiting)

        asked = "mark", slot, token, nonce, retry
        return self._ask(self.rules.renew, world, asked, question)

    def begin(self, world: World, slot: int, token: int, retry: int, nonce: int) -> Told:
        def question() -> Begin:
            return Begin("job", slot_of(slot), str(token), retry, str(nonce), str(nonce), "m")

        return self._ask(self.rules.begin, world, (slot, token, retry, nonce), question)

    def prune(self, world: World, up_to: int) -> Stored:
        step = self.rules.prune(world.stored.record(self.terms), slot_of(up_to))
        return self._after(world, step)

    def _ask(
        self, rule: Rule, world: World, asked: Hashable, question: Callable[[], object]
    ) -> Told:
        known = rule, world.stored, world.phase, asked
        if known not in self._known:
            step = rule(world.stored.record(self.terms), question(), time_of(world.phase))
            self._known[known] = step.answer, self._after(world, step)
        told: Told = self._known[known]
        return told

    def _after(self, world: World, step: Step[Any]) -> Stored:
        return world.stored.after(step.record, time_of(world.phase))
