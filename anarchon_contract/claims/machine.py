"""A random program of everything a claim-only store can be asked, on it and on the model at once.

The model is the store in memory. Its clock is set to the time that the store answered with, and
no moment a program names lies within the time that a question takes, so that all that depends on
the clock is the same on both sides, but for when a record was opened.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from anarchon.backends.memory_claims import MemoryClaimBackend
from anarchon.claim_store import ClaimStore, Save
from anarchon.clock import MILLISECOND, from_millis, to_millis
from anarchon.run import Attempt, RunState
from anarchon.store import Claim, ClaimAnswer, Outcome, Reply
from anarchon_contract.claims.harness import Feature, Harness
from anarchon_contract.claims.questions import scheduled
from anarchon_contract.leases.questions import HOUR, MINUTE

JOBS = ("sync", "sync:a", "{b} *.>", "日本")
SPACES = ("claims", "claims:a")
#: How far before the start of the program its slots lie; some are still to come.
AGES = (*(count * MINUTE for count in (1, 2, 3, 5, 50)), MILLISECOND * 60_001, -HOUR)
#: None of them ends within a few minutes of an age.
WITHINS = (timedelta(seconds=90), timedelta(seconds=150), HOUR, 5 * HOUR)
STATES = (RunState.SUCCESS, RunState.FAILED, RunState.PUBLISHED, RunState.INTERRUPTED)

job = st.sampled_from(JOBS)
age = st.sampled_from(AGES)
# nobody has an attempt of a slot that is to come
age_of_past = st.sampled_from([age for age in AGES if age > timedelta(0)])
few = st.integers(0, 3)
way = st.integers(0, 1)


@dataclass(frozen=True)
class Asked:
    """A claim before anything of the store's time is known."""

    job: str
    age: timedelta
    token: int
    within: timedelta
    instance: str
    begins_as: RunState


claims = st.builds(
    Asked,
    job,
    age,
    few,
    st.sampled_from(WITHINS),
    st.sampled_from(("web-1", "wéb 2")),
    st.sampled_from((RunState.RUNNING, RunState.CLAIMED)),
)


class Program(RuleBasedStateMachine):
    """One program; a class of the test's own sets ``both``."""

    both: Both

    @initialize()
    def begin(self) -> None:
        self.both.begin()
        self._last: tuple[list[Claim], int] | None = None

    @rule(
        asked=st.lists(claims, min_size=1, max_size=4, unique_by=lambda one: one.job),
        space=way,
        connection=way,
    )
    def claim(self, asked: list[Asked], space: int, connection: int) -> None:
        self._claim([self._made(one) for one in asked], space, connection)

    @rule(asked=claims, tokens=st.lists(few, min_size=2, max_size=4), connection=way)
    def contend(self, asked: Asked, tokens: list[int], connection: int) -> None:
        """Let several ask for the same slot, one after the other."""
        for token in tokens:
            self._claim([self._made(replace(asked, token=token))], 0, connection)
            connection = 1 - connection

    @rule(connection=way)
    def ask_again(self, connection: int) -> None:
        """Send the last claims once more, as after a lost reply; perhaps by another connection."""
        if self._last is not None:
            self._claim(*self._last, connection)

    def _claim(self, asked: list[Claim], space: int, connection: int) -> None:
        self.both.claim(asked, space, connection)
        self._last = (asked, space)

    def _made(self, asked: Asked) -> Claim:
        return scheduled(
            self.both.zero - asked.age,
            f"token {asked.token}",
            job=asked.job,
            within=asked.within,
            instance=asked.instance,
            begins_as=asked.begins_as,
        )

    @rule(
        asked=st.lists(
            st.tuples(
                job, age_of_past, st.sampled_from(STATES), st.none() | st.just("é {1} \n"), few
            ),
            min_size=1,
            max_size=3,
        ),
        space=way,
        connection=way,
    )
    def save(self, asked: list[tuple[Any, ...]], space: int, connection: int) -> None:
        zero = self.both.zero
        saves = [
            Save(
                Attempt(
                    name,
                    zero - aged,
                    1,
                    state,
                    "web-1",
                    to_millis(zero - aged),
                    zero,
                    zero + MILLISECOND,
                    detail,
                ),
                keep + 1,
            )
            for name, aged, state, detail, keep in asked
        ]
        self.both.save(saves, space, connection)

    @rule(jobs=st.lists(job, max_size=4), limit=st.sampled_from((1, 2, 100)), space=way)
    def read(self, jobs: list[str], limit: int, space: int) -> None:
        self.both.read(jobs, limit, space)

    @rule(space=way, connection=way)
    def reopen(self, space: int, connection: int) -> None:
        self.both.reopen(space, connection)

    @rule(space=way, connection=way)
    def ask_nothing(self, space: int, connection: int) -> None:
        self.both.claim([], space, connection)

    def teardown(self) -> None:
        for space in (0, 1):
            self.both.read(JOBS, 1000, space)


class Both:
    """The store by two connections in two namespaces, and its model."""

    def __init__(self, run: Callable[[Coroutine[Any, Any, Any]], Any], harness: Harness) -> None:
        self._run = run
        self._harness = harness
        self._stores: dict[tuple[int, int], ClaimStore] = {
            (space, connection): harness.connect(namespace)
            for space, namespace in enumerate(SPACES)
            for connection in (0, 1)
        }
        self._history = Feature.HISTORY in harness.features
        for store in self._stores.values():
            run(store.open())

    def close(self) -> None:
        for store in self._stores.values():
            self._run(store.close())

    def begin(self) -> None:
        """Start another program on a store that has lost everything."""
        self._run(self._harness.empty())
        self.time = self._run(self._stores[0, 0].claim(())).time
        self.zero = from_millis(to_millis(self.time))
        model = MemoryClaimBackend(lambda: self.time)
        self._models = [model.connect(namespace) for namespace in SPACES]
        self._newest: dict[tuple[int, str], datetime] = {}
        self._claimed: set[tuple[int, str, datetime]] = set()

    def reopen(self, space: int, connection: int) -> None:
        store = self._stores[space, connection]
        self._run(store.close())
        self._run(store.open())

    def claim(self, asked: list[Claim], space: int, connection: int) -> None:
        reply: Reply[ClaimAnswer] = self._run(self._stores[space, connection].claim(asked))
        assert reply.time >= self.time, "the time went back"
        self.time = reply.time
        wanted = [self._wanted(one, space) for one in asked]
        self._compare("claim", asked, [self._told(one) for one in reply.answers], wanted)

    def _wanted(self, asked: Claim, space: int) -> ClaimAnswer:
        newest = self._newest.get((space, asked.job), asked.slot)
        claimed = (space, asked.job, asked.slot) in self._claimed
        in_order = Feature.ANY_ORDER in self._harness.features
        if not in_order and not claimed and asked.slot < newest:
            return ClaimAnswer(Outcome.DONE)
        reply: Reply[ClaimAnswer] = self._run(self._models[space].claim([asked]))
        (answer,) = reply.answers
        if answer.outcome is Outcome.WON:
            self._claimed.add((space, asked.job, asked.slot))
            self._newest[space, asked.job] = max(newest, asked.slot)
        return self._told(answer)

    def _told(self, answer: ClaimAnswer) -> ClaimAnswer:
        """Return an answer without what this store does not tell every time."""
        if answer.outcome is Outcome.DONE and Feature.HOLDER not in self._harness.features:
            return replace(answer, holder=None)
        return answer

    def save(self, saves: list[Save], space: int, connection: int) -> None:
        reply = self._run(self._stores[space, connection].save(saves))
        self._run(self._models[space].save(saves))
        self._compare("save", saves, reply.answers, [self._history] * len(saves))

    def read(self, jobs: Sequence[str], limit: int, space: int) -> None:
        if not self._history:
            return
        names = list(dict.fromkeys(jobs))
        told = self._run(self._stores[space, 0].history(names, limit)).answers
        known = self._run(self._models[space].history(names, limit)).answers
        self._compare("history", names, [a.slot for a in told], [a.slot for a in known])
        # of which job it tells the same slot is left open, where it tells not of all
        if limit > len(known):
            self._compare("history", names, _ordered(told), _ordered(known))

    def _compare(self, kind: str, asked: Any, told: Sequence[Any], wanted: Sequence[Any]) -> None:
        note(f"{kind} {asked}\n    {list(told)}")
        assert list(told) == list(wanted), f"{kind} {asked}"


def _ordered(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Put slots of the same time of several jobs in one order, and leave out when they began."""
    shown = [one if one.ended else replace(one, started=one.slot) for one in attempts]
    return sorted(shown, key=lambda one: (one.slot, one.job))
