"""What a drawn question is about: runs, slots and tokens, found by place when it is asked."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import count
from typing import Any

from hypothesis.stateful import RuleBasedStateMachine

from anarchon.store import Begin, Claim, Mode, Renewal, Terms, Waiting
from anarchon_contract.leases import drawn
from anarchon_contract.leases.drawn import MS, Asked, Near, Of, Waits
from anarchon_contract.leases.pair import Pair, runs_of, unfinished_of

#: On a clock that runs, one question takes its time: no moment may lie within it.
LONG = timedelta(minutes=1)


class Finding(RuleBasedStateMachine):
    """A program that can name what it asks about; ``pair`` is what it runs on."""

    pair: Pair

    def __init__(self) -> None:
        super().__init__()
        self.pair.begin()
        self._new_tokens = count(1)
        self._last_slot = self.pair.zero - LONG
        self._names: list[str] = []

    def _claim(
        self,
        asked: Asked,
        space: int,
        *,
        name: str | None = None,
        slot: datetime | None = None,
        token: str | None = None,
        mode: Mode | None = None,
    ) -> Claim:
        name = name or self._names[asked.job]
        self._last_slot = slot or self._slot(asked.slot, name, space)
        lease, start_within = asked.lease, asked.start_within
        if not self.pair.held:
            lease = max(lease, drawn.HOUR)
            start_within = None if start_within is None else max(start_within, drawn.HOUR)
        return Claim(
            name,
            self._last_slot,
            token or self._token(asked.token),
            mode or asked.mode,
            asked.instance,
            Terms(lease, asked.overlap, asked.max_attempts, asked.begins_as, start_within),
            asked.within,
            self._after(asked.after, name, space),
        )

    def _after(self, by: timedelta | None, job: str, space: int) -> datetime | None:
        """Return a moment near the newest slot, where that is known to the millisecond."""
        record = self.pair.record(job, space)
        if by is None or record is None:
            return None if by is None else self.pair.zero - drawn.DAY
        by_clock = record.newest == record.floor >= self.pair.zero
        return None if by_clock and not self.pair.held else record.newest + by

    def _renewal(self, of: Of, space: int, holder: str | None, waits: Waits | None) -> Renewal:
        name, slot, token = self._run_of(of, space)
        if waits is None:
            return Renewal(name, slot, token, self._own(of, space, "holder", holder))
        nonce = self._own(of, space, "nonce", waits.nonce)
        retry = waits.retry + (self._own(of, space, "retry", "own") or 0)
        return Renewal(name, slot, token, waiting=Waiting(nonce, retry, waits.delay))

    def _begin(self, of: Of, space: int, retry: int, nonce: str, holder: str) -> Begin:
        """A later retry than the run's, where ``retry`` is not 0."""
        number = (self._own(of, space, "retry", "own") or 0) + retry
        delivery = self._own(of, space, "nonce", nonce) or "n1"
        worker = self._own(of, space, "holder", holder) or "pod-1"
        return Begin(*self._run_of(of, space), number, delivery, worker, f"m {delivery}")

    def _own(self, of: Of, space: int, what: str, drawn_one: Any) -> Any:
        """Return what was drawn, or for "own" what the run has."""
        if drawn_one != "own":
            return drawn_one
        name, slot, _ = self._run_of(of, space)
        record = self.pair.record(name, space)
        run = record.runs.get(slot) if record is not None else None
        return None if run is None else getattr(run, what)

    def _token(self, number: int) -> str:
        return f"token {number}" if number else f"new {next(self._new_tokens)}"

    def _slot(self, slot: timedelta | Near, job: str, space: int) -> datetime:
        pair = self.pair
        if not isinstance(slot, Near):
            return pair.zero + slot
        record = pair.record(job, space)
        if slot.what == "last" or (slot.what == "floor" and record is None):
            return self._last_slot + slot.by
        if slot.what == "floor" and record is not None:
            near, exact = record.floor, pair.held or record.floor < pair.zero
        else:
            near, exact = pair.time, pair.held
        return near + (slot.by if exact else (slot.by // MS or 1) * LONG)

    def _unfinished_or_new(self, job: str, nth: int) -> datetime:
        """Return the slot of a run that has not ended, or one right after the newest one."""
        record = self.pair.record(job)
        unfinished = unfinished_of(record)
        if unfinished:
            slot: datetime = unfinished[nth % len(unfinished)].slot
            return slot
        recent = (self.pair.time if self.pair.held else self.pair.zero) - LONG
        return max(self._after(MS, job, 0) or recent, recent)

    def _run_of(self, of: Of, space: int) -> tuple[str, datetime, str]:
        """Find a run by its place; where there is none, name what nobody claimed."""
        found = [
            (job, run)
            for job in self._names
            for run in (runs_of if of.all else unfinished_of)(self.pair.record(job, space))
        ]
        if not found:
            return self._names[of.job], self._last_slot, "nobody's"
        job, run = found[of.nth % len(found)]
        spent = run.spent[-1] if run.spent else None
        token = {"own": run.token or spent, "spent": spent}.get(str(of.token))
        return job, run.slot, token or self._token(2)
