"""The two streams of a namespace: how they are made, and what must be so of those that are there.

Claims lie in one that forgets them by their age, and by nothing else: where it is full it refuses
the new ones. The history lies in another, which lets the oldest go. The layout's version stands in
the description of each.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from anarchon.backends.nats.connection import Answer, Connection, Request
from anarchon.backends.nats.names import LAYOUT, Names
from anarchon.backends.nats.settings import Settings
from anarchon.clock import SystemClock
from anarchon.durations import describe
from anarchon.errors import SchemaMismatch, StoreError, StoreRefused, StoreUnavailable
from anarchon.store import RETENTION

API = "$JS.API"
#: Each attempt is written when it begins and when it ends.
WRITTEN = 2
#: How many attempts of a job are kept before anybody says how many; the default of a job.
_KEEP = 1000
_NANOSECONDS = 1000

_NO_STREAM = 10059
_OTHER_CONFIG = 10058
#: Of the refusals of JetStream, those that may end by themselves: without a leader, for example.
_FOR_A_WHILE = 503
_LAYOUT = re.compile(r"anarchon (?:claims|history), layout ([0-9]+)")


@dataclass(frozen=True, slots=True)
class Known:
    """A stream as it is now; ``time`` is the server's, or this host's where it tells none."""

    config: Mapping[str, Any]
    time: datetime

    @property
    def max_age(self) -> timedelta | None:
        """How old a message gets; none: as old as it may be."""
        age = int(self.config.get("max_age", 0))
        return timedelta(microseconds=age // _NANOSECONDS) if age else None


class Streams:
    """What is asked of the streams of one namespace."""

    def __init__(self, settings: Settings, names: Names) -> None:
        self._settings = settings
        self._names = names
        self._clock = SystemClock()
        #: How many messages of a job the history keeps, as far as is known.
        self.room = WRITTEN * _KEEP
        self._found: dict[str, Known] = {}

    async def prepare(self, connection: Connection) -> None:
        """Make the streams, or check those that are there, and that we may do our work."""
        missing = await self._look(connection)
        if missing:
            await self._make(connection, missing)
            missing = await self._look(connection)
        if missing:
            raise StoreUnavailable(self._settings.label, f"the stream {missing[0]} is gone")
        await connection.exchange(self._probes())
        self.room = self._room(self._found[self._names.history])

    async def look(self, connection: Connection) -> None:
        """Check what is there, and that the rest may be made.

        Changes nothing: where a stream is missing, the server refuses what would make it, for a
        name that is not the one asked for, after it has looked at our rights.
        """
        missing = await self._look(connection)
        makings = [Request(f"{API}.STREAM.CREATE.{name}", b"{}") for name in missing]
        await connection.exchange(makings or self._probes())

    @property
    def are_there(self) -> bool:
        """Whether the last look found both streams."""
        return len(self._found) == 2

    def doubts(self, *, in_a_cluster: bool) -> list[str]:
        """Say what may cost a promise, of the streams that the last look found."""
        doubts = []
        claims = self._found.get(self._names.claims)
        replicas = self._settings.replicas or 1
        if claims is not None:
            replicas = int(claims.config.get("num_replicas", 1))
            if claims.config.get("storage") == "memory":
                doubts.append(
                    f"the stream {self._names.claims} lies in memory: after a restart of the"
                    " server slots may run twice; make it anew with storage file"
                )
        if in_a_cluster and replicas == 1:
            doubts.append(
                "the claims lie on one server of the cluster: while it is away nothing is"
                " claimed, and if its disk is lost slots may run twice; ?replicas=3 keeps them"
                " on three"
            )
        return doubts

    def info(self, name: str) -> Request:
        return Request(f"{API}.STREAM.INFO.{name}")

    def last(self, job: str, slot: int) -> Request:
        """Return the question for the claim of a slot."""
        return Request(f"{API}.DIRECT.GET.{self._names.claims}.{self._names.claim(job, slot)}")

    def raised(self, known: Known, needed: timedelta) -> Request:
        """Return what lets the stream of claims remember each for so long."""
        return _updated(known, max_age=_nanoseconds(needed))

    def roomier(self, known: Known, keep: int) -> Request:
        """Return what lets the history keep so many attempts of each job."""
        return _updated(known, max_msgs_per_subject=max(WRITTEN * keep, self._room(known)))

    def read(self, name: str, answer: Answer) -> Known:
        """Return the stream that an answer tells of, checked; raises ``StoreError``."""
        known = self._known(name, answer)
        if known is None:
            raise StoreUnavailable(self._settings.label, f"the stream {name} is gone")
        self.check(name, known)
        return known

    def forgets_before(self, known: Known, needed: timedelta) -> bool:
        return known.max_age is not None and known.max_age < needed

    def forgetful(self, known: Known, needed: timedelta, reason: str) -> StoreError:
        """Return the error of a stream that forgets claims too early, and may not be changed."""
        age = describe(known.max_age or needed)
        return StoreError(
            self._settings.label,
            f"the stream {self._names.claims} forgets claims after {age}, and {describe(needed)}"
            f" are needed; it could not be changed ({reason}): set its max age to"
            f" {describe(needed)} or more, or give this user the right to update it",
        )

    def check(self, name: str, known: Known) -> None:
        """Raise unless a stream is as it has to be."""
        config = known.config
        label = self._settings.label
        layout = _LAYOUT.search(str(config.get("description", "")))
        if layout is None:
            raise StoreError(label, f"the stream {name} was not made by anarchon: rename it")
        if int(layout[1]) != LAYOUT:
            raise SchemaMismatch(
                label,
                f"the stream {name} has layout {layout[1]}, and this version of anarchon knows"
                f" layout {LAYOUT} only",
            )
        for key, wanted in self._required(name).items():
            has = config.get(key, False if wanted is False else None)
            if has != wanted:
                raise StoreError(
                    label,
                    f"the stream {name} has {key} {has!r}, and {wanted!r} is needed: change it"
                    f" (nats stream edit), or delete the stream while nothing runs",
                )

    def _required(self, name: str) -> dict[str, Any]:
        required: dict[str, Any] = {"retention": "limits", "sealed": False}
        if name == self._names.claims:
            required |= {
                "subjects": [self._names.all_claims],
                "discard": "new",
                "allow_direct": True,
                "max_msgs": -1,
                "max_msgs_per_subject": -1,
            }
        else:
            required["subjects"] = [self._names.all_runs]
        if self._settings.replicas is not None:
            required["num_replicas"] = self._settings.replicas
        return required

    def _wanted(self, name: str) -> dict[str, Any]:
        claims = name == self._names.claims
        age = self._settings.remember if claims else RETENTION
        kind = "claims" if claims else "history"
        return {
            "name": name,
            "description": f"anarchon {kind}, layout {LAYOUT}",
            "subjects": [self._names.all_claims if claims else self._names.all_runs],
            "retention": "limits",
            "storage": "file",
            "discard": "new" if claims else "old",
            "max_age": _nanoseconds(age),
            "max_msgs": -1,
            "max_bytes": -1,
            "max_msgs_per_subject": -1 if claims else self.room,
            "num_replicas": self._settings.replicas or 1,
            "allow_direct": True,
        }

    async def _make(self, connection: Connection, names: Sequence[str]) -> None:
        wanted = [json.dumps(self._wanted(name)).encode() for name in names]
        answers = await connection.exchange(
            [
                Request(f"{API}.STREAM.CREATE.{name}", config)
                for name, config in zip(names, wanted, strict=True)
            ]
        )
        for name, answer in zip(names, answers, strict=True):
            # somebody else may have made it meanwhile, with other limits
            self._known(name, answer, unless=_OTHER_CONFIG)

    async def _look(self, connection: Connection) -> list[str]:
        """Check the streams there are; return which are not."""
        names = (self._names.claims, self._names.history)
        answers = await connection.exchange([self.info(name) for name in names])
        found = {name: self._known(name, each) for name, each in zip(names, answers, strict=True)}
        self._found = {name: known for name, known in found.items() if known is not None}
        for name, known in self._found.items():
            self.check(name, known)
        return [name for name in names if name not in self._found]

    def _probes(self) -> list[Request]:
        """Return what uses our rights and changes nothing: no stream has that name.

        Only where the streams are there: NATS 2.9 does not answer about one that is not.
        """
        headers = {"Nats-Expected-Stream": "none"}
        return [
            Request(self._names.claim("rights", 0), headers=headers),
            Request(self._names.runs("rights"), headers=headers),
            self.last("rights", 0),
        ]

    def _known(self, name: str, answer: Answer, *, unless: int = _NO_STREAM) -> Known | None:
        label = self._settings.label
        if answer.reaches_nobody:
            raise StoreUnavailable(
                label, "JetStream is not enabled, neither for the server nor for this account"
            )
        try:
            told = answer.json()
            error = told.get("error")
            if error is None:
                return Known(told["config"], self._time(told))
            code, text = error.get("err_code"), error.get("description", "")
            kind = StoreUnavailable if error.get("code") == _FOR_A_WHILE else StoreRefused
        except (ValueError, TypeError, KeyError, AttributeError) as broken:
            raise StoreError(label, f"what it says of the stream {name} is not known") from broken
        if code == unless:
            return None
        raise kind(label, f"the stream {name} cannot be used: {text}")

    def _time(self, told: Mapping[str, Any]) -> datetime:
        # servers before 2.10 tell none
        if "ts" not in told:
            return self._clock.wall()
        return datetime.fromisoformat(told["ts"]).astimezone(UTC)

    def _room(self, known: Known) -> int:
        limit = int(known.config.get("max_msgs_per_subject", -1))
        return limit if limit > 0 else 10**9


def _updated(known: Known, **limits: int) -> Request:
    # all else has to be said again, or it goes back to what it is by default
    config = {**known.config, **limits}
    return Request(f"{API}.STREAM.UPDATE.{config['name']}", json.dumps(config).encode())


def _nanoseconds(length: timedelta) -> int:
    return length // timedelta(microseconds=1) * _NANOSECONDS
