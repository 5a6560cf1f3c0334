"""The port, on RabbitMQ: a claim is the declaration of its slot's queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

from anarchon.backends.rabbitmq.claiming import claim
from anarchon.backends.rabbitmq.line import Call, ForkedAway, Line
from anarchon.backends.rabbitmq.link import Link, version_of
from anarchon.backends.rabbitmq.refusals import QueueRefused
from anarchon.backends.rabbitmq.settings import Settings
from anarchon.claim_store import Save
from anarchon.clock import SystemClock
from anarchon.errors import NoHistory, StoreError, StoreUnavailable
from anarchon.run import Attempt
from anarchon.standing import Standing
from anarchon.store import Claim, ClaimAnswer, Outcome, Reply

T = TypeVar("T")

#: The oldest that the suite of tests runs on.
_OLDEST_TESTED = (3, 10)


class RabbitMQStore:
    """One connection to the broker, on a thread of its own; see ``anarchon.claim_store``."""

    def __init__(self, settings: Settings, namespace: str, now: Callable[[], datetime]) -> None:
        self.label = settings.label
        self._settings = settings
        self._namespace = namespace
        self._now = now
        self._clock = SystemClock()
        self._line: Line | None = None
        #: What was heard in a call that was not answered as a whole: it is not asked for again,
        #: so that a batch which takes longer than one deadline gets done in several.
        self._heard: dict[Claim, ClaimAnswer] = {}

    def __repr__(self) -> str:
        return f"<RabbitMQStore {self.label}: {self._namespace}>"

    async def open(self) -> None:
        def ask(link: Link, call: Call) -> None:
            link.connect()
            link.check_rights()

        await self._call(ask)

    async def close(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            await line.end()

    async def examine(self) -> Standing:
        """Look at the server; makes no queue."""

        def ask(link: Link, call: Call) -> str:
            link.connect()
            link.check_rights()
            return link.server

        try:
            server = await self._call(ask)
        finally:
            await self.close()
        doubts: tuple[str, ...] = ()
        if version_of(server.split()[-1]) < _OLDEST_TESTED:
            oldest = ".".join(map(str, _OLDEST_TESTED))
            doubts = (f"{server} is older than {oldest}, the oldest this was tested with",)
        return Standing(server, is_prepared=True, doubts=doubts)

    async def claim(self, claims: Sequence[Claim]) -> Reply[ClaimAnswer]:
        def ask(link: Link, call: Call) -> tuple[ClaimAnswer, ...]:
            answers = []
            if not claims:
                link.connect()
                link.ping()
            for asked in claims:
                # connecting may take longer than the call is waited for
                link.connect()
                if not call.is_wanted:
                    break
                try:
                    answers.append(self._claim(link, asked))
                except QueueRefused as error:
                    if len(claims) == 1:
                        raise
                    # not as what is to be asked again whole: others may have won by now, and
                    # would wait for this one until they are late
                    raise StoreError(error.store, error.problem) from error
            return tuple(answers)

        answers = await self._call(ask)
        self._heard.clear()
        return Reply(self._now(), answers)

    def _claim(self, link: Link, asked: Claim) -> ClaimAnswer:
        answer = self._heard.get(asked)
        if answer is None:
            answer = claim(link, self._settings, self._namespace, asked, self._now)
            # what was neither may be so by the next time
            if answer.outcome in (Outcome.WON, Outcome.DONE):
                self._heard[asked] = answer
        return answer

    async def save(self, saves: Sequence[Save]) -> Reply[bool]:
        return Reply(self._now(), (False,) * len(saves))

    async def history(self, jobs: Sequence[str], limit: int) -> Reply[Attempt]:
        raise NoHistory(
            self.label,
            "RabbitMQ keeps no history: listen to the scheduler's events, or use a store that"
            " keeps one, such as redis:// or postgresql://",
        )

    async def _call(self, ask: Callable[[Link, Call], T]) -> T:
        if self._line is not None and self._line.is_stuck:
            # its reply may come at any time, or never
            self._line.abandon()
            self._line = None
        if self._line is None:
            link = Link(self._settings, self._namespace, self._clock)
            try:
                self._line = Line(link, self._clock)
            except RuntimeError as error:
                raise StoreUnavailable(self.label, f"no thread to ask on ({error})") from error
        try:
            return await self._line.run(ask)
        except ForkedAway:
            problem = "opened before a fork: connect and open a store in each process"
            raise StoreError(self.label, problem) from None
