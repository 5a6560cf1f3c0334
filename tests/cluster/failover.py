"""Clients that fight for slots while a Redis primary fails, and what that cost them.

They are no schedulers: they ask the adapter directly, as often as it answers, and believe what
they hear just as the engine does: a failed claim or end is asked again under its token, a lease
is trusted from before the request that was granted, less a margin.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from anarchon.backends.redis import RedisBackend
from anarchon.clock import EPOCH, from_millis
from anarchon.errors import StoreError
from anarchon.keeper import margin
from anarchon.run import Attempt, Overlap, RunState
from anarchon.store import Claim, Finish, Mode, Outcome, Registration, Renewal, Reply, Terms

NAMESPACE = "failover"
SHORT_JOBS = [f"short-{n}" for n in range(4)]
LONG_JOBS = [f"long-{n}" for n in range(10)]
LEASE = timedelta(seconds=1)
HEARTBEAT = 0.2
STEP = timedelta(milliseconds=40)
JITTER = 0.5
#: Longer than the adapter waits for replicas: what is seen is its answer.
_DEADLINE = 2.0


@dataclass
class Right:
    """What a client holds: a grant it heard of, and until when it trusts it."""

    job: str
    slot: datetime
    token: str
    attempt: int
    fence: int
    heard: float
    trusted_until: float
    over: bool = False


@dataclass
class Tally:
    """What all clients heard."""

    rights: list[Right] = field(default_factory=list)
    ended: list[Right] = field(default_factory=list)
    overlaps: list[tuple[Right, Right]] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)

    def heard(self, right: Right) -> None:
        """Note a grant, and whoever trusts another one of the slot in this very moment."""
        # one that was waited for too long is heard of when nobody trusts it any more
        others = self.rights if right.trusted_until > right.heard else ()
        for other in others:
            same = (other.job, other.slot) == (right.job, right.slot)
            trusted = not other.over and other.trusted_until > right.heard
            if same and trusted and other.token != right.token:
                self.overlaps.append((other, right))
        self.rights.append(right)

    def won_first(self) -> dict[tuple[str, datetime], set[str]]:
        """Return the tokens that heard that the first attempt of a slot is theirs."""
        tokens: dict[tuple[str, datetime], set[str]] = defaultdict(set)
        for right in self.rights:
            if right.attempt == 1:
                tokens[right.job, right.slot].add(right.token)
        return tokens


class Client:
    """Claims every slot once, ends what is short, renews what is long, and watches the rest.

    As the engine it renews on a connection of its own: a claim that waits for replicas must not
    cost a lease.
    """

    def __init__(self, name: str, backend: RedisBackend, tally: Tally, seed: int) -> None:
        self._name = name
        self._store = backend.connect(NAMESPACE)
        self._keeper = backend.connect(NAMESPACE)
        self._tally = tally
        self._random = random.Random(seed)
        self._asks: list[tuple[float, Claim]] = []
        self._held: dict[str, Right] = {}
        self._to_end: dict[str, Right] = {}
        self._watched: set[tuple[str, datetime]] = set()
        self._next_look = 0.0

    def plan(self, job: str, slots: Sequence[datetime]) -> None:
        for slot in slots:
            at = (slot - EPOCH).total_seconds() + self._random.uniform(0, JITTER)
            self._asks.append((at, self._claim(job, slot, Mode.SCHEDULED)))
        self._asks.sort(key=lambda ask: ask[0])

    @property
    def is_waiting(self) -> bool:
        """Tell whether a slot or an end has no answer yet."""
        return bool(self._asks or self._to_end)

    async def work(self, is_over: Callable[[], bool]) -> None:
        """Go on until told; a call that failed costs a short pause, and is asked again."""
        await asyncio.gather(self._ask(is_over), self._keep(is_over))
        await self._store.close()
        await self._keeper.close()

    async def _ask(self, is_over: Callable[[], bool]) -> None:
        while not is_over():
            fine = await self._look() and await self._claim_due() and await self._end()
            await asyncio.sleep(0.002 if fine else 0.02)

    async def _keep(self, is_over: Callable[[], bool]) -> None:
        while not is_over():
            fine = await self._renew()
            await asyncio.sleep(HEARTBEAT if fine else HEARTBEAT / 3)

    def _claim(self, job: str, slot: datetime, mode: Mode) -> Claim:
        lease = LEASE if job in LONG_JOBS else timedelta(minutes=5)
        terms = Terms(lease, Overlap.ALLOW, 100, RunState.RUNNING)
        token = secrets.token_hex(8)
        return Claim(job, slot, token, mode, self._name, terms, timedelta(minutes=1))

    async def _claim_due(self) -> bool:
        batch: dict[str, tuple[float, Claim]] = {}
        for ask in self._asks:
            if ask[0] > time.time():
                break
            batch.setdefault(ask[1].job, ask)
        if not batch:
            return True
        asked = [claim for _, claim in batch.values()]
        if not await self._ask_for(asked):
            return False
        answered = {id(ask) for ask in batch.values()}
        self._asks = [ask for ask in self._asks if id(ask) not in answered]
        return True

    async def _look(self) -> bool:
        if time.monotonic() < self._next_look:
            return True
        self._next_look = time.monotonic() + HEARTBEAT
        looks = [self._claim(job, slot, Mode.TAKEOVER) for job, slot in self._watched]
        return not looks or await self._ask_for(looks)

    async def _ask_for(self, claims: list[Claim]) -> bool:
        asked_at = time.monotonic()
        reply = await self._call(self._store.claim(claims))
        for claim, answer in zip(claims, reply.answers if reply else (), strict=reply is not None):
            if answer.outcome is Outcome.RUNNING and claim.job in LONG_JOBS:
                self._watched.add((claim.job, claim.slot))
            if answer.outcome is not Outcome.WON:
                continue
            trusted = (claim.terms.lease - margin(claim.terms.lease)).total_seconds()
            right = Right(
                *(claim.job, claim.slot, claim.token, answer.attempt, answer.fence),
                heard=time.monotonic(),
                trusted_until=asked_at + trusted,
            )
            self._tally.heard(right)
            self._watched.discard((claim.job, claim.slot))
            (self._held if claim.job in LONG_JOBS else self._to_end)[claim.token] = right
        return reply is not None

    async def _end(self) -> bool:
        rights = list(self._to_end.values())
        if not rights:
            return True
        finishes = [Finish(r.job, r.slot, r.token, RunState.SUCCESS) for r in rights]
        reply = await self._call(self._store.finish(finishes))
        for right, accepted in zip(rights, reply.answers if reply else (), strict=bool(reply)):
            del self._to_end[right.token]
            right.over = True
            if accepted:
                self._tally.ended.append(right)
            else:
                self._tally.errors["ends refused"] += 1
        return reply is not None

    async def _renew(self) -> bool:
        self._distrust()
        rights = list(self._held.values())
        if not rights:
            return True
        asked_at = time.monotonic()
        renewals = [Renewal(r.job, r.slot, r.token) for r in rights]
        reply = await self._call(self._keeper.renew(renewals))
        self._distrust()
        for right, renewed in zip(rights, reply.answers if reply else (), strict=bool(reply)):
            if right.over:
                continue
            if renewed:
                right.trusted_until = asked_at + (LEASE - margin(LEASE)).total_seconds()
            else:
                self._lose(right, "renewals refused")
        return reply is not None

    def _distrust(self) -> None:
        for right in list(self._held.values()):
            if right.trusted_until <= time.monotonic():
                self._lose(right, "leases not renewed in time")

    def _lose(self, right: Right, how: str) -> None:
        self._tally.errors[how] += 1
        right.over = True
        del self._held[right.token]
        self._watched.add((right.job, right.slot))

    async def _call(self, asked: Awaitable[Reply[Any]]) -> Reply[Any] | None:
        try:
            async with asyncio.timeout(_DEADLINE):
                return await asked
        except (StoreError, TimeoutError):
            self._tally.errors["calls failed"] += 1
            return None


@dataclass(frozen=True)
class Loss:
    """What a failover cost, counted over what clients heard and what the new primary knows."""

    slots: int
    never_won: int
    won: int
    doubled: int
    most_wins_of_a_slot: int
    wins_lost: int
    ends: int
    ends_lost: int
    overlaps: int
    fences_twice: int
    fences_back: int
    errors: dict[str, int]

    def __str__(self) -> str:
        return (
            f"{self.slots} slots, {self.never_won} never won, {self.doubled} doubled;"
            f" {self.won} wins heard: {self.wins_lost} lost; {self.ends} ends heard:"
            f" {self.ends_lost} lost; {self.overlaps} leases trusted beside a later attempt;"
            f" {self.errors}"
        )


@dataclass(frozen=True)
class Script:
    """For how long all is well, replication is cut, nobody answers, and all is well again.

    With a ``split`` the primary is not killed but cut off, together with half the clients, and
    goes on for so long beside the new one.
    """

    well: float = 0.5
    cut: float = 1.1
    away: float = 0.2
    split: float = 0.0
    after: float = 0.8

    def slots_from(self, start: datetime) -> list[datetime]:
        length = self.well + self.cut + self.away + self.split + self.after
        return [start + n * STEP for n in range(timedelta(seconds=length) // STEP)]


async def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    """Wait until it is so; replicas may take some seconds to come."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "not so in time"
        await asyncio.sleep(0.02)


class Family(Protocol):
    """A primary that can be made to fail, and one that takes its place."""

    @property
    def replication(self) -> Replication: ...
    def url(self, wait_replicas: int, way: int = 0) -> str: ...
    def fail(self) -> None: ...
    def promote(self, *ways: int) -> None: ...
    def lead(self, way: int) -> None: ...


class Replication(Protocol):
    """The way from the primary to its replica."""

    def black_hole(self) -> None: ...


async def fail_over(trio: Family, wait_replicas: int, script: Script, clients: int = 5) -> Loss:
    """Let clients fight over slots while the primary dies, and count what was lost."""
    tally = Tally()
    backends = [RedisBackend(trio.url(wait_replicas, way)) for way in range(2)]
    every_job = [*SHORT_JOBS, *LONG_JOBS]
    store = backends[0].connect(NAMESPACE)
    base = (await store.active([Registration(job, "v1") for job in every_job])).time
    await store.close()
    start = base + timedelta(milliseconds=200)
    slots = script.slots_from(start)
    fighters = [Client(f"client-{n}", backends[n % 2], tally, seed=n) for n in range(clients)]
    for fighter in fighters:
        for job in SHORT_JOBS:
            fighter.plan(job, slots)
        for job in LONG_JOBS:
            fighter.plan(job, slots[:1])
    over = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for fighter in fighters:
            group.create_task(fighter.work(over.is_set))
        await asyncio.sleep((start - base).total_seconds() + script.well)
        if script.cut:
            await asyncio.to_thread(trio.replication.black_hole)
            await asyncio.sleep(script.cut)
        failed = time.monotonic()
        if script.split:
            promoted = from_millis(int(time.time() * 1000))
            await asyncio.to_thread(trio.promote, 0)
            await asyncio.sleep(script.split)
            await asyncio.to_thread(trio.fail)
            await asyncio.to_thread(trio.lead, 1)
        else:
            await asyncio.to_thread(trio.fail)
            await asyncio.sleep(script.away)
            promoted = from_millis(int(time.time() * 1000))
            await asyncio.to_thread(trio.promote, 0, 1)
        await asyncio.sleep(script.after)
        await until(lambda: not any(fighter.is_waiting for fighter in fighters))
        over.set()
    store = RedisBackend(trio.url(0)).connect(NAMESPACE)
    known = (await store.history(every_job, 1_000_000)).answers
    await store.close()
    planned = len(slots) * len(SHORT_JOBS) + len(LONG_JOBS)
    return _count(tally, known, planned, failed, promoted)


def _count(
    tally: Tally, known: Sequence[Attempt], planned: int, failed: float, promoted: datetime
) -> Loss:
    first = tally.won_first()
    by_fence = {(attempt.job, attempt.fence): attempt for attempt in known}
    highest: dict[str, int] = {}
    tokens: dict[tuple[str, int], set[str]] = defaultdict(set)
    for right in tally.rights:
        tokens[right.job, right.fence].add(right.token)
        if right.heard < failed:
            highest[right.job] = max(right.fence, highest.get(right.job, 0))
    return Loss(
        slots=planned,
        # where the answer to the first attempt was lost, a later one may have been heard of
        never_won=planned - len({(right.job, right.slot) for right in tally.rights}),
        won=sum(map(len, first.values())),
        doubled=sum(len(tokens) > 1 for tokens in first.values()),
        most_wins_of_a_slot=max(map(len, first.values())),
        wins_lost=sum((right.job, right.fence) not in by_fence for right in tally.rights),
        ends=len(tally.ended),
        ends_lost=sum(not _is_ended(by_fence.get((r.job, r.fence))) for r in tally.ended),
        overlaps=len(tally.overlaps),
        fences_twice=sum(len(holders) > 1 for holders in tokens.values()),
        fences_back=sum(
            attempt.started >= promoted and attempt.fence <= highest.get(attempt.job, 0)
            for attempt in known
            if attempt.state is not RunState.SKIPPED
        ),
        errors=dict(tally.errors),
    )


def _is_ended(attempt: Attempt | None) -> bool:
    return attempt is not None and attempt.state is RunState.SUCCESS
