"""Stores with a flaw that a scheduler in use has, or that one line less would make of ours.

Each is the store in memory with one rule broken. They are kept so that whoever checks stores
can be checked: a checker that does not find these would not find anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from anarchon.backends.memory import MemoryBackend, MemoryStore
from anarchon.clock import EPOCH
from anarchon.run import Overlap
from anarchon.store import Claim, ClaimAnswer, Finish, Mode, Renewal, Reply


class _Flawed(MemoryBackend):
    """The store in memory, with the connections of a flawed one."""

    flaw: type[_FlawedStore]

    def connect(self, namespace: str) -> MemoryStore:
        store = super().connect(namespace)
        return self.flaw(store._namespace, self._now)


class _FlawedStore(MemoryStore):
    def _token_of(self, asked: Finish | Renewal) -> str | None:
        """Return the token that a run has at the moment, whoever asks."""
        record = self._namespace.records.get(asked.job)
        run = record.runs.get(asked.slot) if record is not None else None
        return run.token if run is not None else None


class ForgetsSlots(_Flawed):
    """Keeps the newest slot of a job only, and does not know afterwards that it had others.

    So does Procrastinate, which deletes what is older in the same step: an instance that lags
    by two slots defers the older one again.
    """

    class flaw(_FlawedStore):  # noqa: N801
        async def claim(self, claims: Sequence[Claim]) -> Reply[ClaimAnswer]:
            reply = await super().claim(claims)
            for asked in claims:
                ended = self._namespace.ended.get(asked.job, {})
                for slot in sorted(ended)[:-1]:
                    del ended[slot]
            return reply


class EndsForAnybody(_Flawed):
    """Ends a run by its slot, whoever says so.

    So does PgQueuer: an instance that was frozen while another took its run over ends the run
    of that other.
    """

    class flaw(_FlawedStore):  # noqa: N801
        async def finish(self, finishes: Sequence[Finish]) -> Reply[bool]:
            return await super().finish(
                [replace(one, token=self._token_of(one) or one.token) for one in finishes]
            )


class RenewsForAnybody(_Flawed):
    """Renews a lease by its slot: a former holder keeps the run of another alive."""

    class flaw(_FlawedStore):  # noqa: N801
        async def renew(self, renewals: Sequence[Renewal]) -> Reply[bool]:
            return await super().renew(
                [replace(one, token=self._token_of(one) or one.token) for one in renewals]
            )


class Overlaps(_Flawed):
    """Looks at no other run of the job."""

    class flaw(_FlawedStore):  # noqa: N801
        async def claim(self, claims: Sequence[Claim]) -> Reply[ClaimAnswer]:
            return await super().claim(
                [replace(one, terms=replace(one.terms, overlap=Overlap.ALLOW)) for one in claims]
            )


class IsNeverLate(_Flawed):
    """Starts a slot however old it is."""

    class flaw(_FlawedStore):  # noqa: N801
        async def claim(self, claims: Sequence[Claim]) -> Reply[ClaimAnswer]:
            return await super().claim([replace(one, within=timedelta(days=999)) for one in claims])


class GivesRunsAway(_Flawed):
    """Lets a look take a run over though its lease lives."""

    class flaw(_FlawedStore):  # noqa: N801
        async def claim(self, claims: Sequence[Claim]) -> Reply[ClaimAnswer]:
            for asked in claims:
                record = self._namespace.records.get(asked.job)
                run = record.runs.get(asked.slot) if record is not None else None
                if record is None or run is None or run.state.has_ended or not run.expires:
                    continue
                if asked.mode is Mode.TAKEOVER and run.token != asked.token:
                    lapsed = replace(run, expires=EPOCH)
                    kept = {**record.runs, asked.slot: lapsed}
                    self._namespace.records[asked.job] = replace(record, runs=kept)
            return await super().claim(claims)


class NeverGivesBack(_Flawed):
    """Takes no run over: what a dead instance held stays held."""

    class flaw(_FlawedStore):  # noqa: N801
        async def claim(self, claims: Sequence[Claim]) -> Reply[ClaimAnswer]:
            return await super().claim(
                [
                    replace(one, mode=Mode.SCHEDULED) if one.mode is Mode.TAKEOVER else one
                    for one in claims
                ]
            )
