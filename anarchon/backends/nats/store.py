"""The questions of the port as messages, and what comes back as its answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from anarchon.backends.nats.connection import Answer, Request
from anarchon.backends.nats.history import Reader
from anarchon.backends.nats.link import Link
from anarchon.backends.nats.names import Names
from anarchon.backends.nats.records import Held, Line
from anarchon.backends.nats.settings import Settings
from anarchon.backends.nats.streams import WRITTEN, Known, Streams
from anarchon.claim_store import Save, refused_at
from anarchon.clock import SystemClock, to_millis
from anarchon.errors import OutcomeUnknown, StoreError, StoreRefused, StoreUnavailable
from anarchon.run import Attempt
from anarchon.store import Claim, ClaimAnswer, Reply

_FREE = {"Nats-Expected-Last-Subject-Sequence": "0"}
#: What a publisher hears who was not the first; the second where the first is under way yet.
_TAKEN = frozenset({10071, 10164})
_NO_MESSAGE = "404"
#: In seconds, from server to server: a claim may win before it can be read everywhere.
_PAUSES = (0.01, 0.05, 0.2)


class NatsStore:
    """One namespace on the servers; see ``anarchon.claim_store.ClaimStore``.

    A claim is a look at its slot and at the server's clock, in one trip; if the slot is free and
    in time, its message, in a second one, of which the server takes the first for each slot; and
    the line that opens the history, in a third. All claims of a call go together.
    """

    def __init__(self, settings: Settings, namespace: str, warn: Callable[[str], None]) -> None:
        self._settings = settings
        self._names = Names(namespace)
        self._streams = Streams(settings, self._names)
        self._link = Link(settings, self._streams.prepare)
        self._reader = Reader(self._link, self._names)
        self._clock = SystemClock()
        self._warn = warn

    def __repr__(self) -> str:
        return f"<NatsStore: {self.label}>"

    @property
    def label(self) -> str:
        return self._settings.label

    async def open(self) -> None:
        await self._link.open()

    async def close(self) -> None:
        await self._link.close()

    async def claim(self, claims: Sequence[Claim]) -> Reply[ClaimAnswer]:
        info = self._streams.info(self._names.claims)
        told, *looks = await self._link.ask([info, *map(self._look, claims)])
        known = self._read(self._names.claims, told)
        held = [self._held(looked) for looked in looks]
        # whether the lines of those that are ours were written is not known
        lines = [
            Line(one.opened(asked.job, asked.slot), again=True)
            for asked, one in zip(claims, held, strict=True)
            if one is not None and one.token == asked.token
        ]
        answers = {
            at: _decided(asked, one, known.time)
            for at, (asked, one) in enumerate(zip(claims, held, strict=True))
        }
        free = {at: claims[at] for at, answer in answers.items() if answer is None}
        if free:
            await self._see_that_it_remembers(known, list(free.values()))
            ours = [Held.by(asked, known.time) for asked in free.values()]
            holders = await self._publish(list(free.values()), ours)
            for (at, asked), one in zip(free.items(), holders, strict=True):
                answers[at] = one.answer(asked)
                if one.token == asked.token:
                    lines.append(Line(one.opened(asked.job, asked.slot)))
        with _having_sent():
            await self._open_records(lines)
        return Reply(known.time, tuple(answer for answer in answers.values() if answer))

    def _look(self, asked: Claim) -> Request:
        return self._streams.last(asked.job, to_millis(asked.slot))

    async def _publish(self, claims: Sequence[Claim], ours: Sequence[Held]) -> list[Held]:
        """Ask for free slots; return who has each, ourselves or somebody else."""
        heard = await self._link.ask(
            [
                Request(self._names.claim(asked.job, to_millis(asked.slot)), held.written(), _FREE)
                for asked, held in zip(claims, ours, strict=True)
            ],
            writes=True,
        )
        refused = [_refusal(answer) for answer in heard]
        self._raise_for([each for each in refused if each is None or each[0] not in _TAKEN])
        lost = [asked for asked, each in zip(claims, refused, strict=True) if each is not None]
        with _having_sent():
            winners = iter(await self._winners(lost) if lost else [])
        return [
            mine if each is None else next(winners)
            for mine, each in zip(ours, refused, strict=True)
        ]

    async def _winners(self, claims: Sequence[Claim]) -> list[Held]:
        """Return who has slots that are taken."""
        for pause in (*_PAUSES, None):
            looked = await self._link.ask([self._look(asked) for asked in claims], writes=True)
            found = [self._held(answer) for answer in looked]
            known = [held for held in found if held is not None]
            if len(known) == len(claims):
                return known
            if pause is not None:
                await self._clock.sleep(pause)
        problem = "a claim of the slot is under way, and whose it is cannot be read yet"
        raise OutcomeUnknown(self.label, problem)

    def _held(self, answer: Answer) -> Held | None:
        """Return who has a slot, as a look tells it."""
        if answer.status == _NO_MESSAGE:
            return None
        if answer.status is not None:
            raise StoreUnavailable(
                self.label, f"the stream {self._names.claims} cannot be read ({answer.status})"
            )
        try:
            return Held.read(answer.body)
        except ValueError as error:
            problem = f"the stream {self._names.claims} holds what is no claim"
            raise StoreError(self.label, problem) from error

    async def _see_that_it_remembers(self, known: Known, claims: Sequence[Claim]) -> None:
        """Let the stream forget claims later, where one of these has to be known for longer."""
        needed = self._settings.remembers(max(asked.within for asked in claims))
        if not self._streams.forgets_before(known, needed):
            return
        request = self._streams.raised(known, needed)
        try:
            (answer,) = await self._link.ask([request])
            self._read(self._names.claims, answer)
        except StoreRefused as error:
            raise self._streams.forgetful(known, needed, error.problem) from error

    async def _open_records(self, lines: Sequence[Line]) -> None:
        if not lines:
            return
        heard = await self._link.ask([self._written(line) for line in lines], writes=True)
        refused = [refusal[1] for refusal in map(_refusal, heard) if refusal is not None]
        if refused:
            # what was won is to be done, history or not
            self._warn(f"the history cannot be written: {refused[0]}")

    async def save(self, saves: Sequence[Save]) -> Reply[bool]:
        await self._make_room(max((each.keep for each in saves), default=0))
        info = self._streams.info(self._names.history)
        lines = [self._written(Line(each.attempt, each.keep)) for each in saves]
        told, *heard = await self._link.ask([info, *lines], writes=True)
        self._raise_for([_refusal(answer) for answer in heard])
        known = self._read(self._names.history, told)
        return Reply(known.time, (True,) * len(saves))

    async def _make_room(self, keep: int) -> None:
        """Let the history keep so many attempts of a job, where it keeps less."""
        await self._link.be_ready()
        if WRITTEN * keep <= self._streams.room:
            return
        (told,) = await self._link.ask([self._streams.info(self._names.history)])
        known = self._read(self._names.history, told)
        try:
            (answer,) = await self._link.ask([self._streams.roomier(known, keep)])
            self._read(self._names.history, answer)
        except StoreUnavailable as error:
            self._warn(f"the history keeps less than {keep} attempts of a job: {error.problem}")
        self._streams.room = WRITTEN * keep

    def _written(self, line: Line) -> Request:
        return Request(self._names.runs(line.attempt.job), line.written())

    async def history(self, jobs: Sequence[str], limit: int) -> Reply[Attempt]:
        info = self._streams.info(self._names.history)
        (told,) = await self._link.ask([info])
        time = self._read(self._names.history, told).time
        names = list(dict.fromkeys(jobs)) if limit > 0 else []
        found = await self._reader.newest(names, limit, time)
        found.sort(key=lambda one: (one.slot, one.job), reverse=True)
        return Reply(time, tuple(found[:limit]))

    def _read(self, name: str, answer: Answer) -> Known:
        """Read what is told of a stream; where it is not as it has to be, start anew next time."""
        try:
            return self._streams.read(name, answer)
        except StoreError:
            self._link.drop()
            raise

    def _raise_for(self, heard: Sequence[tuple[int, str] | None]) -> None:
        """Raise what refusals amount to, if there are any; ``None`` stands for what was done."""
        refused = [each for each in heard if each is not None]
        if not refused:
            return
        self._link.drop()
        kind = OutcomeUnknown if len(refused) < len(heard) else StoreUnavailable
        raise kind(self.label, f"what was sent was refused: {refused[0][1]}")


@contextmanager
def _having_sent() -> Iterator[None]:
    """Let nobody hear that nothing happened: some of the claims may be stored."""
    try:
        yield
    except StoreUnavailable as error:
        raise OutcomeUnknown(error.store, error.problem) from error


def _decided(asked: Claim, held: Held | None, time: datetime) -> ClaimAnswer | None:
    """Return the answer to a claim, or none where it is to be tried."""
    if held is not None:
        return held.answer(asked)
    refused = refused_at(asked, time)
    return None if refused is None else ClaimAnswer(refused)


def _refusal(answer: Answer) -> tuple[int, str] | None:
    """Return code and text of what a stream refused; none for what it has stored."""
    if answer.reaches_nobody:
        return 0, "the stream is gone"
    try:
        told = answer.json()
        if "seq" in told and "error" not in told:
            return None
        return int(told["error"]["err_code"]), str(told["error"].get("description", ""))
    except (ValueError, KeyError, TypeError):
        return 0, "the stream gave no answer that is known"
