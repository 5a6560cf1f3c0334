"""A store and the rules in memory, asked the same, and compared after every answer.

The store's clock is held: it is read from where a harness has put it, in every script,
function or thread of the store, and everything else of the store is what users run. So each
answer is known to the millisecond, fences and times included.

Where it is not held, the model's clock is set to the time that the store answered with, and
what depends on the clock is left out.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest
from hypothesis import currently_in_test_context, note

from anarchon.clock import EPOCH, from_millis, rfc3339, to_millis
from anarchon.record import JobRecord
from anarchon.run import Attempt, RunState
from anarchon.store import ClaimAnswer, KnownJob, LeaseStore, Outcome, Registration, Reply
from anarchon_contract.leases.harness import NAMESPACE, Harness, OpenHarness, OpenHeldHarness
from anarchon_contract.leases.model import MemoryHarness

#: The second one's name begins like the first, and goes on like a job of it.
NAMESPACES = (NAMESPACE, f"{NAMESPACE}:a")
CONNECTIONS = 2
#: Right when the zone that the servers of the tests are set to puts its clocks forward.
ZERO = datetime(2026, 3, 8, 5, 30, tzinfo=UTC)

T = TypeVar("T")
Questions = Sequence[Any]


@contextmanager
def paired(opens: OpenHarness | OpenHeldHarness | None, *, held: bool) -> Iterator[Pair]:
    """Open a backend's store for many programs: each begins with an empty one."""
    if opens is None:
        pytest.skip("the clock of this store cannot be held")
    with asyncio.Runner() as runner:
        run = runner.get_loop().run_until_complete
        stack = AsyncExitStack()
        try:
            harness = run(stack.enter_async_context(opens()))
            run(harness.wipe())
            pair = Pair(run, harness, held=held)
            run(pair.open(stack))
            yield pair
        finally:
            run(stack.aclose())


class Pair:
    """The store, by several connections and in several namespaces, and its model."""

    def __init__(
        self, run: Callable[[Coroutine[Any, Any, Any]], Any], harness: Harness, *, held: bool
    ) -> None:
        self.held = held
        self.time = self.zero = ZERO
        self.agree = True
        self._run = run
        self._harness: Any = harness
        self._stores: dict[tuple[int, int], LeaseStore] = {}
        self.model = MemoryHarness(lambda: self.time)
        self._models = [self.model.connect(namespace) for namespace in NAMESPACES]
        self._fences: dict[tuple[int, str], dict[tuple[datetime, int], int]] = {}

    async def open(self, stack: AsyncExitStack) -> None:
        for space, namespace in enumerate(NAMESPACES):
            for connection in range(CONNECTIONS):
                store = self._harness.connect(namespace)
                stack.push_async_callback(store.close)
                await store.open()
                self._stores[space, connection] = store

    def begin(self) -> None:
        """Start another program."""
        self.agree = True
        self._fences.clear()
        self._run(self._harness.empty())
        self._run(self.model.empty())
        if self.held:
            self.set_clock(ZERO)
        else:
            # between all moments a program names, so that its own length does not matter
            self.time = self._run(self._stores[0, 0].active(())).time
            self.zero = from_millis(to_millis(self.time)) - timedelta(milliseconds=500)

    def set_clock(self, time: datetime) -> None:
        """Move the held clock; stores keep whole milliseconds of it."""
        assert self.held
        self._run(self._harness.set_clock(time))
        self.time = from_millis(to_millis(time))

    def record(self, job: str, space: int = 0) -> JobRecord | None:
        """Return what the model keeps of a job."""
        return self.model.record(job, NAMESPACES[space])

    def ask(self, kind: str, *asked: Any, space: int = 0, connection: int = 0) -> Questions:
        """Ask both, compare, and return the answers."""
        reply: Reply[Any] = self._run(getattr(self._stores[space, connection], kind)(*asked))
        if not self.held:
            self.time = reply.time
        _note(_Said(self.time, NAMESPACES[space], kind, asked, reply.answers))
        wanted = self._run(getattr(self._models[space], kind)(*asked))
        # a question about nothing may be answered by the server's own clock
        if self.held and asked[0] and asked[-1]:
            self._check(reply.time == wanted.time, f"{kind} answered at {reply.time}")
        self._check(
            self._comparable(reply.answers) == self._comparable(wanted.answers),
            f"{kind} {asked}\nthe store:  {reply.answers}\nthe rules:  {wanted.answers}",
        )
        if kind == "claim":
            self._check_fences(space, asked[0], reply.answers)
        return reply.answers

    def ask_at_once(self, space: int, first: Any, second: Any) -> None:
        """Ask two questions by two connections; they must be answered in one order or other."""
        before = self.model.snapshot(NAMESPACES[space])

        async def both() -> Any:
            return await asyncio.gather(
                *(
                    getattr(self._stores[space, connection], kind)([asked])
                    for connection, (kind, asked) in enumerate((first, second))
                )
            )

        told = [reply.answers for reply in self._run(both())]
        _note(_Said(self.time, NAMESPACES[space], "at once", (first, second), told))
        jobs = list({asked.job for _, asked in (first, second)})
        kept = self._run(self._stores[space, 0].history(jobs, 1000)).answers
        wanted = []
        for order in ((0, 1), (1, 0)):
            self.model.go_back(NAMESPACES[space], before)
            answers: list[Any] = [None, None]
            for at in order:
                kind, asked = (first, second)[at]
                answers[at] = self._run(getattr(self._models[space], kind)([asked])).answers
            history = self._run(self._models[space].history(jobs, 1000)).answers
            if (answers, history) == (told, kept):
                for (kind, asked), answer in zip((first, second), told, strict=True):
                    if kind == "claim":
                        self._note_fences(space, [asked], answer)
                return
            wanted.append((answers, history))
        self._check(False, f"neither order\nthe store:  {told, kept}\nthe rules:  {wanted}")

    def lapse(self, job: str, slot: datetime) -> None:
        """Let a lease of the first namespace lapse on both sides."""
        self._behind(lambda harness: harness.lapse(job, slot))

    def lower_floor(self, jobs: Sequence[str], floor: datetime) -> None:
        """Let jobs of the first namespace have been met then."""
        self._behind(lambda harness: harness.lower_floor(jobs, floor))

    def age(self, job: str, fingerprint: str, by: timedelta) -> None:
        """Let a fingerprint of the first namespace have been seen so much earlier."""
        self._behind(lambda harness: harness.age_fingerprint(job, fingerprint, by))

    def compare_everything(self) -> None:
        """Compare all that can be read of both, and check what must hold of it by itself."""
        for space, namespace in enumerate(NAMESPACES):
            jobs = sorted(self.model.records(namespace))
            history = self.ask("history", jobs, 10_000, space=space)
            attempts = [(a.job, a.slot, a.attempt) for a in history]
            self._check(len(set(attempts)) == len(attempts), "two records of one attempt")
            fences = [(a.job, a.fence) for a in history if a.fence]
            self._check(len(set(fences)) == len(fences), "one fence for two attempts")
            self.ask("active", [Registration(job, "the end") for job in jobs], space=space)

    def check_leases(self, *, one_way: bool) -> None:
        """Check the leases of the model: what holds of it holds of the store that agrees.

        Not where the clock went back: what it says of the past is then not what it said.
        """
        if not one_way:
            return
        for namespace in NAMESPACES:
            for job, record in self.model.records(namespace).items():
                busy = [
                    run
                    for run in record.runs.values()
                    if run.is_busy_at(self.time) and run.terms.overlap == "skip"
                ]
                self._check(len(busy) <= 1, f"{job}: two runs that must not overlap are busy")

    def _behind(self, change: Callable[[Any], Awaitable[None]]) -> None:
        async def changed() -> None:
            await change(self._harness)
            await change(self.model)

        self._run(changed())

    def _check_fences(self, space: int, claims: Questions, answers: Sequence[ClaimAnswer]) -> None:
        for asked, answer in zip(claims, answers, strict=True):
            if answer.outcome is not Outcome.WON:
                continue
            given = self._fences.get((space, asked.job), {})
            known = given.get((asked.slot, answer.attempt))
            newest = max(given.values(), default=0)
            # a token that asks again hears the fence of its attempt
            self._check(known == answer.fence or answer.fence > newest, "the fence did not grow")
        self._note_fences(space, claims, answers)

    def _note_fences(self, space: int, claims: Questions, answers: Sequence[ClaimAnswer]) -> None:
        for asked, answer in zip(claims, answers, strict=True):
            if answer.outcome is Outcome.WON:
                given = self._fences.setdefault((space, asked.job), {})
                given[asked.slot, answer.attempt] = answer.fence

    def _check(self, holds: bool, problem: str) -> None:
        if not holds:
            self.agree = False
            raise AssertionError(problem)

    def _comparable(self, answers: Sequence[Any]) -> Sequence[Any]:
        return answers if self.held else [_timeless(answer) for answer in answers]


@dataclass(frozen=True)
class _Said:
    """A question and its answers, put into words only if a failure is shown."""

    time: datetime
    namespace: str
    kind: str
    asked: Sequence[Any]
    answers: Sequence[Any]

    def __repr__(self) -> str:
        asked, answers = (
            re.sub(r"datetime\.datetime\(([\d, ]+), tzinfo=[\w.]+\)", _short, repr(said))
            for said in (self.asked, self.answers)
        )
        return f"  # {rfc3339(self.time)} {self.namespace}: {self.kind} {asked} -> {answers}"


def _note(said: _Said) -> None:
    # hypothesis shows it where a program fails
    if currently_in_test_context():
        note(said)


def _short(moment: re.Match[str]) -> str:
    year, month, day, *rest = map(int, moment[1].split(", "))
    return rfc3339(datetime(year, month, day, *rest, tzinfo=UTC))  # type: ignore[misc, arg-type]


def _timeless(answer: Any) -> Any:
    """Leave out what the clock makes of an answer; a batch may take some time."""
    match answer:
        case ClaimAnswer():
            start_by = None if answer.start_by is None else EPOCH
            return replace(answer, fence=bool(answer.fence), start_by=start_by)
        case Attempt(ended=ended, fence=fence):
            return replace(
                answer,
                fence=bool(fence),
                started=EPOCH,
                ended=None if ended is None else EPOCH,
                begun=None if answer.begun is None else EPOCH,
            )
        case KnownJob():
            others = tuple((name, EPOCH) for name, _ in answer.others)
            return replace(answer, first_seen=EPOCH, newest=EPOCH, others=others)
    return answer


def unfinished_of(record: JobRecord | None) -> list[Any]:
    """Return the runs of a record that have not ended, by slot."""
    return [run for run in runs_of(record) if not run.state.has_ended]


def runs_of(record: JobRecord | None) -> list[Any]:
    """Return the runs of a record, by slot, without the marks of skipped ones."""
    runs = {} if record is None else record.runs
    return [runs[slot] for slot in sorted(runs) if runs[slot].state is not RunState.SKIPPED]
