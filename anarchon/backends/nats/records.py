"""What the messages say: claims, and the lines that a job's history is put together from."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from anarchon.claim_store import won
from anarchon.clock import MILLISECOND, from_millis, to_millis
from anarchon.run import Attempt, RunState
from anarchon.store import Claim, ClaimAnswer, Outcome


@dataclass(frozen=True, slots=True)
class Held:
    """A claim that was won; ``won`` is the store's time then."""

    token: str
    instance: str
    lease: timedelta
    begins_as: RunState
    won: datetime

    @classmethod
    def by(cls, asked: Claim, time: datetime) -> Held:
        terms = asked.terms
        return cls(asked.token, asked.instance, terms.lease, terms.begins_as, time)

    @classmethod
    def read(cls, body: bytes) -> Held:
        """Read a message; raises ``ValueError`` for what is no claim."""
        said = _object(body)
        try:
            return cls(
                str(said["token"]),
                str(said["instance"]),
                int(said["lease"]) * MILLISECOND,
                RunState(said["begins_as"]),
                from_millis(int(said["won"])),
            )
        except (KeyError, TypeError) as error:
            raise ValueError("not a claim") from error

    def written(self) -> bytes:
        return _bytes(
            token=self.token,
            instance=self.instance,
            lease=self.lease // MILLISECOND,
            begins_as=self.begins_as.value,
            won=to_millis(self.won),
        )

    def answer(self, asked: Claim) -> ClaimAnswer:
        """Return what whoever asks for this slot hears."""
        if self.token != asked.token:
            return ClaimAnswer(Outcome.DONE, holder=self.instance)
        return won(asked, self.instance, self.lease)

    def opened(self, job: str, slot: datetime) -> Attempt:
        """Return the history record of its attempt under way."""
        fence = to_millis(slot)
        return Attempt(job, slot, 1, self.begins_as, self.instance, fence, self.won)


@dataclass(frozen=True, slots=True)
class Line:
    """One message of a job's history.

    ``keep`` is how many attempts the job has from then on, on lines that end one. A line that is
    written ``again`` is of a claim that was asked for again: it opens what no other line has.
    """

    attempt: Attempt
    keep: int | None = None
    again: bool = False

    @classmethod
    def read(cls, body: bytes) -> Line:
        """Read a message; raises ``ValueError`` for what is no line."""
        said = _object(body)
        try:
            attempt = Attempt(
                str(said["job"]),
                from_millis(int(said["slot"])),
                int(said["attempt"]),
                RunState(said["state"]),
                str(said["instance"]),
                int(said["fence"]),
                from_millis(int(said["started"])),
                _moment(said.get("ended")),
                said.get("detail"),
                said.get("worker"),
                said.get("message"),
                _moment(said.get("begun")),
            )
            return cls(attempt, said.get("keep"), bool(said.get("again")))
        except (KeyError, TypeError) as error:
            raise ValueError("not a line of a history") from error

    def written(self) -> bytes:
        one = self.attempt
        return _bytes(
            job=one.job,
            slot=to_millis(one.slot),
            attempt=one.attempt,
            state=one.state.value,
            instance=one.instance,
            fence=one.fence,
            started=to_millis(one.started),
            ended=None if one.ended is None else to_millis(one.ended),
            detail=one.detail,
            worker=one.worker,
            message=one.message,
            begun=None if one.begun is None else to_millis(one.begun),
            keep=self.keep,
            again=self.again or None,
        )


@dataclass(slots=True)
class Kept:
    """The history of one job as its lines leave it, read in the order they were written."""

    attempts: dict[datetime, Attempt] = field(default_factory=dict)
    _seen: set[datetime] = field(default_factory=set)

    @classmethod
    def of(cls, lines: Iterable[Line]) -> Kept:
        kept = cls()
        for line in lines:
            kept.add(line)
        return kept

    def add(self, line: Line) -> None:
        slot = line.attempt.slot
        if line.again and slot in self._seen:
            return
        self._seen.add(slot)
        self.attempts[slot] = line.attempt
        if line.keep is not None:
            for old in sorted(self.attempts)[: -line.keep]:
                del self.attempts[old]


def _moment(millis: Any) -> datetime | None:
    return None if millis is None else from_millis(int(millis))


def _object(body: bytes) -> dict[str, Any]:
    said = json.loads(body)
    if not isinstance(said, dict):
        raise ValueError("not an object")
    return said


def _bytes(**said: Any) -> bytes:
    kept = {name: value for name, value in said.items() if value is not None}
    return json.dumps(kept, separators=(",", ":")).encode()
