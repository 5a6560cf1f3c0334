"""Reading a job's newest attempts, and not all there are of it.

A stream is read forwards only, so a reader starts some time ago and goes further back until there
is enough. Enough is told by slots: a line is never older than its slot, so whatever was written of
a slot within that time is read, and with as many of those as are asked for none is left out. Each
reader lives on the server for as long as a question, and ends there by itself if we do not.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from anarchon.backends.nats.connection import Connection, Request
from anarchon.backends.nats.link import Link
from anarchon.backends.nats.names import Names
from anarchon.backends.nats.records import Kept, Line
from anarchon.backends.nats.streams import API
from anarchon.clock import rfc3339
from anarchon.errors import StoreError, StoreUnavailable
from anarchon.run import Attempt

#: The last: all there is. Each is so much more than the one before that a job which has too few
#: slots in one has a bearable number of lines in the next.
_BACK = (timedelta(minutes=5), timedelta(hours=2), timedelta(days=2), None)
_INACTIVE = 5_000_000_000


class Reader:
    """Reads the history of one namespace."""

    def __init__(self, link: Link, names: Names) -> None:
        self._link = link
        self._names = names

    async def newest(self, jobs: Sequence[str], limit: int, time: datetime) -> list[Attempt]:
        """Return at least the newest attempts of each job, as many as ``limit`` if there are."""
        found: list[Attempt] = []
        left = list(jobs)
        for back in _BACK:
            if not left:
                break
            start = None if back is None else time - back
            known = await self._since(left, start)
            few = []
            for job in left:
                attempts = known[job].attempts
                if start is None or sum(slot >= start for slot in attempts) >= limit:
                    found += attempts.values()
                else:
                    few.append(job)
            left = few
        return found

    async def _since(self, jobs: Sequence[str], start: datetime | None) -> dict[str, Kept]:
        async def read(connection: Connection) -> dict[str, Kept]:
            known = {job: Kept() for job in jobs}
            consumers: list[str] = []

            async def ask(inbox: str) -> int:
                wanted = [self._consumer(job, start, inbox) for job in jobs]
                told = [self._told(each.json()) for each in await connection.exchange(wanted)]
                consumers.extend(name for name, _ in told)
                return sum(count for _, count in told)

            for message in await connection.gather(ask):
                line = Line.read(message.data)
                if line.attempt.job in known:
                    known[line.attempt.job].add(line)
            base = f"{API}.CONSUMER.DELETE.{self._names.history}"
            await connection.exchange([Request(f"{base}.{name}") for name in consumers])
            return known

        try:
            return await self._link.use(read)
        except ValueError as error:
            problem = f"the stream {self._names.history} holds what is no history"
            raise StoreError(self._link.label, problem) from error

    def _consumer(self, job: str, start: datetime | None, inbox: str) -> Request:
        config: dict[str, Any] = {
            "deliver_subject": inbox,
            "filter_subject": self._names.runs(job),
            "ack_policy": "none",
            "deliver_policy": "all",
            "inactive_threshold": _INACTIVE,
            "mem_storage": True,
            "num_replicas": 1,
        }
        if start is not None:
            config |= {"deliver_policy": "by_start_time", "opt_start_time": rfc3339(start)}
        stream = self._names.history
        asked = {"stream_name": stream, "config": config}
        return Request(f"{API}.CONSUMER.CREATE.{stream}", json.dumps(asked).encode())

    def _told(self, made: dict[str, Any]) -> tuple[str, int]:
        """Return a consumer's name, and how many messages it has for us."""
        if "error" in made:
            problem = f"its history cannot be read: {made['error'].get('description', '')}"
            raise StoreUnavailable(self._link.label, problem)
        # some may be on their way already
        sent = made.get("delivered", {}).get("consumer_seq", 0)
        return str(made["name"]), int(made["num_pending"]) + int(sent)
