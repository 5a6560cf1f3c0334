"""A random program of everything a store can be asked and suffer, step by step on both sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from anarchon.clock import from_millis, to_millis
from anarchon.run import Overlap, RunState
from anarchon.store import (
    FINGERPRINT_MEMORY,
    RETENTION,
    Finish,
    Mode,
    Prune,
    Registration,
    Release,
    Renewal,
)
from anarchon_contract.leases import drawn
from anarchon_contract.leases.again import heard, may_come_twice
from anarchon_contract.leases.drawn import MS, Asked, Edge, Move, Near, Of, Waits
from anarchon_contract.leases.finding import Finding
from anarchon_contract.leases.lives import asked_by
from anarchon_contract.leases.pair import runs_of, unfinished_of

_HELD = precondition(lambda self: self.pair.held)


class Program(Finding):
    """One program; ``pair`` is set by a class of the test's own."""

    def __init__(self) -> None:
        super().__init__()
        self._last_call: tuple[str, tuple[Any, ...], int, Sequence[Any]] | None = None
        self._one_way = True

    @initialize(names=drawn.names, ages=st.sampled_from((365,) * 6 + (0,)))
    def meet(self, names: list[str], ages: int) -> None:
        """Let all jobs but one have been met, a year ago or right now."""
        self._names = names
        met = names[: drawn.UNMET]
        for space in (0, 1):
            self.pair.ask("active", [Registration(job, "v1") for job in met], space=space)
        if ages:
            self.pair.lower_floor(met, self.pair.zero - timedelta(days=ages))

    @rule(asked=drawn.claims, space=drawn.space, connection=drawn.connection)
    def claim(self, asked: list[Asked], space: int, connection: int) -> None:
        self._ask("claim", [self._claim(one, space) for one in asked], space, connection)

    @rule(
        job=drawn.job,
        slot=drawn.slot,
        overlap=st.sampled_from(Overlap),
        max_attempts=st.integers(1, 3),
    )
    def start(self, job: int, slot: timedelta | Near, overlap: Overlap, max_attempts: int) -> None:
        """Claim what is due, as an instance does that is in time."""
        asked = Asked(job, slot, 0, overlap=overlap, max_attempts=max_attempts)
        self._ask("claim", [self._claim(asked, 0)])

    @rule(job=st.sampled_from((0, 0, 1)), moves=drawn.moves, connection=drawn.connection)
    def live(self, job: int, moves: list[Move], connection: int) -> None:
        """Lead the same few runs of a job through their lives."""
        for move in moves:
            self._move(self._names[job], self.pair.zero + drawn.SLOTS[move.slot], move, connection)

    # rules are chosen evenly, and this one gets furthest
    @rule(moves=drawn.moves)
    def live_on(self, moves: list[Move]) -> None:
        self.live(0, moves, 0)

    @rule(moves=drawn.moves)
    def live_further(self, moves: list[Move]) -> None:
        self.live(0, moves, 1)

    @rule(moves=drawn.moves)
    def live_beside(self, moves: list[Move]) -> None:
        self.live(1, moves, 0)

    @rule(job=st.sampled_from((0, 1)), moves=drawn.tracked_moves, connection=drawn.connection)
    def live_in_a_broker(self, job: int, moves: list[Move], connection: int) -> None:
        """Lead published runs through theirs: one that has not ended, or else a new one."""
        name = self._names[job]
        for move in moves:
            self._move(name, self._unfinished_or_new(name, move.slot), move, connection)

    @rule(moves=drawn.tracked_moves)
    def live_in_a_broker_again(self, moves: list[Move]) -> None:
        self.live_in_a_broker(0, moves, 0)

    def _move(self, job: str, slot: datetime, move: Move, connection: int) -> None:
        record = self.pair.record(job)
        run = record.runs.get(slot) if record is not None else None
        own = (run and run.token) or "nobody's"
        spent = run.spent[-1] if run and run.spent else None
        asked = Asked(
            0,
            drawn.MS,
            0,
            overlap=Overlap.ALLOW if move.way == 1 else Overlap.SKIP,
            max_attempts=move.way + 1,
            begins_as=RunState.CLAIMED if move.way == 2 or move.tracked else RunState.RUNNING,
            start_within=drawn.HOUR + drawn.MINUTE if move.tracked or move.way == 1 else None,
            after=timedelta(0) if move.slot == 0 else None,
            instance=f"web-{move.way}",
        )
        match move.verb:
            case "start" | "catch up" | "look" | "hold":
                token = {"hold": own, "look": (None, spent, own)[move.way]}.get(move.verb)
                mode = {"catch up": Mode.CATCH_UP, "look": Mode.TAKEOVER}.get(move.verb)
                claim = self._claim(asked, 0, name=job, slot=slot, token=token, mode=mode)
                self._ask("claim", [claim], 0, connection)
            case "lapse" | "near":
                over = (run.expires or run.deadline) if run is not None else None
                if run is None or over is None:
                    return
                if move.verb == "near" and self.pair.held and over + move.way * MS > self.pair.time:
                    self._set_clock(over + (move.way - 1) * MS)
                elif move.verb == "lapse" and run.expires is not None:
                    self.pair.lapse(job, slot)
                self._last_call = None
            case _:
                kind, question = asked_by(move, job, slot, run)
                self._ask(kind, [question], 0, connection)

    @rule(of=drawn.of, asked=drawn.claim, space=drawn.space, connection=drawn.connection)
    def look(self, of: Of, asked: Asked, space: int, connection: int) -> None:
        """Claim what somebody else has or had: watch it, take it over, or be late."""
        name, slot, token = self._run_of(of, space)
        mode = Mode.TAKEOVER if of.nth % 2 == 0 else asked.mode
        drawn_token = self._token(asked.token) if of.token == "own" else token
        claim = self._claim(asked, space, name=name, slot=slot, token=drawn_token, mode=mode)
        self._ask("claim", [claim], space, connection)

    @rule(
        runs=st.lists(
            st.tuples(drawn.of, drawn.holder_or_none, st.none() | st.none() | drawn.waits),
            min_size=1,
            max_size=4,
        ),
        space=drawn.space,
        connection=drawn.connection,
    )
    def renew(
        self, runs: list[tuple[Of, str | None, Waits | None]], space: int, connection: int
    ) -> None:
        asked = [self._renewal(of, space, holder, waits) for of, holder, waits in runs]
        self._ask("renew", asked, space, connection)

    @rule(of=drawn.of, waits=drawn.waits, space=drawn.space, connection=drawn.connection)
    def mark(self, of: Of, waits: Waits, space: int, connection: int) -> None:
        self._ask("renew", [self._renewal(of, space, None, waits)], space, connection)

    @rule(
        runs=st.lists(
            st.tuples(drawn.of, drawn.retry, drawn.nonce, drawn.holder), min_size=1, max_size=3
        ),
        space=drawn.space,
        connection=drawn.connection,
    )
    def begin(self, runs: list[tuple[Of, int, str, str]], space: int, connection: int) -> None:
        asked = [self._begin(of, space, retry, nonce, holder) for of, retry, nonce, holder in runs]
        self._ask("begin", asked, space, connection)

    @rule(
        runs=st.lists(
            st.tuples(drawn.of, drawn.ended, drawn.detail, drawn.nonce_or_none),
            min_size=1,
            max_size=3,
        ),
        space=drawn.space,
        connection=drawn.connection,
    )
    def finish(
        self, runs: list[tuple[Of, Any, str | None, str | None]], space: int, connection: int
    ) -> None:
        asked = [
            Finish(*self._run_of(of, space), state, detail, self._own(of, space, "nonce", nonce))
            for of, state, detail, nonce in runs
        ]
        self._ask("finish", asked, space, connection)

    @rule(
        runs=st.lists(st.tuples(drawn.of, st.booleans()), min_size=1, max_size=3),
        space=drawn.space,
        connection=drawn.connection,
    )
    def release(self, runs: list[tuple[Of, bool]], space: int, connection: int) -> None:
        asked = [Release(*self._run_of(of, space), begun) for of, begun in runs]
        self._ask("release", asked, space, connection)

    @rule(asked=drawn.registrations, space=drawn.space, connection=drawn.connection)
    def register(self, asked: list[tuple[int, str]], space: int, connection: int) -> None:
        jobs = [Registration(self._names[job], fingerprint) for job, fingerprint in asked]
        self._ask("active", jobs, space, connection)

    @rule(jobs=st.lists(drawn.job, min_size=1, max_size=4), limit=drawn.limit, space=drawn.space)
    def read(self, jobs: list[int], limit: int, space: int) -> None:
        self.pair.ask("history", [self._names[job] for job in jobs], limit, space=space)

    @rule(asked=drawn.prunes, space=drawn.space, connection=drawn.connection)
    def prune(self, asked: list[tuple[int, int, timedelta]], space: int, connection: int) -> None:
        prunes = [Prune(self._names[job], keep, spare) for job, keep, spare in asked]
        self._ask("prune", prunes, space, connection)

    @rule(connection=drawn.connection)
    def ask_again(self, connection: int) -> None:
        """Send the last call once more, as after a lost reply; perhaps by another connection."""
        if self._last_call is None:
            return
        kind, asked, space, before = self._last_call
        again = self.pair.ask(kind, *asked, space=space, connection=connection)
        # what the port promises of these, whatever the rules say
        if self.pair.held and may_come_twice(kind, asked[0]):
            assert [*map(heard, before, again)] == [*again], f"asked again: {before}, then {again}"

    @_HELD
    @rule(first=drawn.claim, second=drawn.claim, space=drawn.space)
    def race(self, first: Asked, second: Asked, space: int) -> None:
        """Let two connections claim at once."""
        claims = [self._claim(one, space) for one in (first, second)]
        self.pair.ask_at_once(space, *(("claim", claim) for claim in claims))
        self._last_call = None

    @_HELD
    @rule(of=drawn.of, asked=drawn.claim, ends=drawn.ended, how=st.integers(0, 3))
    def race_for_a_run(self, of: Of, asked: Asked, ends: Any, how: int) -> None:
        """Let whoever holds a run end, renew or give it back while another looks at it."""
        held = self._run_of(of, 0)
        own = (
            ("finish", Finish(*held, ends, nonce=self._own(of, 0, "nonce", "own"))),
            ("renew", Renewal(*held, self._own(of, 0, "holder", "own"))),
            ("release", Release(*held)),
            ("begin", self._begin(of, 0, 0, "n1", "pod-1")),
        )[how]
        name, slot, _ = held
        look = self._claim(asked, 0, name=name, slot=slot, mode=Mode.TAKEOVER)
        self.pair.ask_at_once(0, own, ("claim", look))
        self._last_call = None

    @_HELD
    @rule(of=drawn.of, retries=st.tuples(drawn.retry, drawn.retry), waits=drawn.waits)
    def race_to_begin(self, of: Of, retries: tuple[int, int], waits: Waits) -> None:
        """Let two deliveries begin a run at once, or one while it is marked."""
        first = ("begin", self._begin(of, 0, retries[0], "n1", "pod-1"))
        second: tuple[str, Any] = ("begin", self._begin(of, 0, retries[1], "n2", "pod-2"))
        if of.nth % 2:
            second = ("renew", self._renewal(of, 0, None, waits))
        self.pair.ask_at_once(0, first, second)
        self._last_call = None

    @rule(
        kind=st.sampled_from(("claim", "renew", "begin", "finish", "release", "active", "history"))
    )
    def ask_nothing(self, kind: str) -> None:
        self.pair.ask(kind, [], *([5] if kind == "history" else []))

    @rule(nth=drawn.few)
    def let_lapse(self, nth: int) -> None:
        self._lapse(nth)

    @rule(nth=drawn.few, token=drawn.token, connection=drawn.connection)
    def take_over(self, nth: int, token: int, connection: int) -> None:
        """Let a lease lapse, and a backup find it so."""
        lapsed = self._lapse(nth)
        if lapsed is not None:
            job, slot = lapsed
            look = Asked(0, drawn.MS, token, Mode.TAKEOVER, instance="web-2")
            self._ask("claim", [self._claim(look, 0, name=job, slot=slot)], 0, connection)

    @rule(job=drawn.job, nth=st.integers(0, 3), by=drawn.age)
    def age_a_fingerprint(self, job: int, nth: int, by: timedelta) -> None:
        record = self.pair.record(self._names[job])
        if record is not None and record.seen:
            known = sorted(record.seen)
            self.pair.age(self._names[job], known[nth % len(known)], by)
            self._last_call = None

    @_HELD
    @rule(by=drawn.ticks)
    def let_time_pass(self, by: timedelta) -> None:
        self._set_clock(self.pair.time + by)

    @_HELD
    @rule(edge=drawn.edge)
    def go_to_an_edge(self, edge: Edge) -> None:
        """Let the time be when a lease lapses, a slot is due, or too late, or too old."""
        coming = sorted(moment for moment in self._edges() if moment > self.pair.time)
        if coming:
            self._set_clock(coming[edge.nth % len(coming)] + edge.by)

    @_HELD
    @rule(
        job=drawn.job,
        edge=st.sampled_from(("due", "late", "floor", "ahead")),
        by=drawn.around,
        asked=drawn.claim,
    )
    def claim_at_an_edge(self, job: int, edge: str, by: timedelta, asked: Asked) -> None:
        """Claim what is due, too late or past just now, or in an hour, give or take a little."""
        name, record = self._names[job], self.pair.record(self._names[job])
        moment = self.pair.time + (drawn.HOUR if edge == "ahead" else timedelta(0))
        if edge == "late" and asked.within < drawn.HOUR:
            moment -= asked.within
        if edge == "floor" and record is not None:
            moment = record.floor
        slot = from_millis(to_millis(moment + by))
        self._ask("claim", [self._claim(asked, 0, name=name, slot=slot)])

    @_HELD
    @rule(
        nth=drawn.few,
        by=drawn.around,
        then=st.sampled_from(("renew", "look", "register", "start")),
        asked=drawn.claim,
    )
    def be_there_when_a_lease_lapses(
        self, nth: int, by: timedelta, then: str, asked: Asked
    ) -> None:
        """Let somebody ask when a lease lapses just now, or a millisecond before or after."""
        leases = [
            (job, run)
            for job, run in self._leases()
            if run.expires is not None and run.expires + by >= self.pair.time
        ]
        if not leases:
            return
        job, run = leases[nth % len(leases)]
        self._set_clock(run.expires + by)
        if then == "renew":
            self._ask("renew", [Renewal(job, run.slot, run.token)])
        elif then == "look":
            look = self._claim(asked, 0, name=job, slot=run.slot, mode=Mode.TAKEOVER)
            self._ask("claim", [look])
        elif then == "register":
            self._ask("active", [Registration(job, "v1")])
        else:
            start = replace(asked, mode=Mode.SCHEDULED, within=400 * drawn.DAY)
            self._ask("claim", [self._claim(start, 0, name=job)])

    @invariant()
    def leases_exclude_each_other(self) -> None:
        if self.pair.agree:
            self.pair.check_leases(one_way=self._one_way)

    def teardown(self) -> None:
        if self._names and self.pair.agree:
            self.pair.compare_everything()

    def _ask(self, kind: str, asked: list[Any], space: int = 0, connection: int = 0) -> None:
        answers = self.pair.ask(kind, asked, space=space, connection=connection)
        self._last_call = (kind, (asked,), space, answers)

    def _lapse(self, nth: int) -> tuple[str, datetime] | None:
        leases = self._leases()
        if not leases:
            return None
        job, run = leases[nth % len(leases)]
        self.pair.lapse(job, run.slot)
        self._last_call = None
        return job, run.slot

    def _leases(self) -> list[tuple[str, Any]]:
        return [
            (job, run)
            for job in self._names
            for run in unfinished_of(self.pair.record(job))
            if run.token is not None and run.expires is not None
        ]

    def _set_clock(self, time: datetime) -> None:
        self._one_way = self._one_way and time >= self.pair.time
        self.pair.set_clock(time)
        self._last_call = None

    def _edges(self) -> set[datetime]:
        zero = self.pair.zero
        edges = {zero + slot for slot in drawn.SLOTS} | {self._last_slot + 2 * drawn.MINUTE}
        for space in (0, 1):
            for job in self._names:
                record = self.pair.record(job, space)
                edges |= {run.expires for run in unfinished_of(record) if run.expires}
                edges |= {run.deadline for run in unfinished_of(record) if run.deadline}
                edges |= {run.slot + RETENTION for run in runs_of(record)}
                seen = record.seen.values() if record is not None else ()
                edges |= {known.last + FINGERPRINT_MEMORY for known in seen}
        return {from_millis(to_millis(moment)) for moment in edges}
