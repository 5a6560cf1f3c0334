"""A way into the server that is not the adapter's."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import nats

from anarchon.backends.nats.names import Names
from anarchon.clock import SystemClock, to_millis
from anarchon_contract.leases.questions import JOB

NAMESPACE = "unit"
NAMES = Names(NAMESPACE)


class Admin:
    """An administrator's connection."""

    def __init__(self, client: Any) -> None:
        self._client = client

    @classmethod
    @asynccontextmanager
    async def of(cls, url: str, **options: Any) -> AsyncIterator[Admin]:
        client = await nats.connect(url, error_cb=_ignore, reconnect_time_wait=0.05, **options)
        try:
            yield cls(client)
        finally:
            await client.close()

    async def api(self, subject: str, **asked: Any) -> dict[str, Any]:
        body = json.dumps(asked).encode() if asked else b""
        answer = await self._client.request(f"$JS.API.{subject}", body, timeout=20)
        told: dict[str, Any] = json.loads(answer.data)
        return told

    async def config(self, stream: str) -> dict[str, Any]:
        told: dict[str, Any] = (await self.api(f"STREAM.INFO.{stream}"))["config"]
        return told

    async def update(self, stream: str, **changed: Any) -> None:
        told = await self.api(f"STREAM.UPDATE.{stream}", **await self.config(stream) | changed)
        assert "error" not in told, told

    async def make_anew(self, stream: str, **changed: Any) -> None:
        """Make a stream with another configuration in the place of one."""
        config = await self.config(stream)
        await self.api(f"STREAM.DELETE.{stream}")
        told = await self.api(f"STREAM.CREATE.{stream}", **config | changed)
        assert "error" not in told, told

    async def delete_streams(self) -> None:
        for name in (NAMES.claims, NAMES.history):
            await self.api(f"STREAM.DELETE.{name}")

    async def publish(self, subject: str, body: bytes) -> None:
        await self._client.request(subject, body, timeout=20)

    async def count(self, stream: str = NAMES.claims) -> int:
        """Return how many messages a stream has."""
        return int((await self.api(f"STREAM.INFO.{stream}"))["state"]["messages"])

    async def has_claim_of(self, slot: datetime, job: str = JOB) -> bool:
        subject = NAMES.claim(job, to_millis(slot))
        told = await self.api(f"STREAM.MSG.GET.{NAMES.claims}", last_by_subj=subject)
        return "error" not in told

    async def connections(self) -> list[str]:
        """Return the names of the clients; only the system's account may ask."""
        answer = await self._client.request("$SYS.REQ.SERVER.PING.CONNZ", b"", timeout=20)
        return [one.get("name", "") for one in json.loads(answer.data)["data"]["connections"]]

    async def wait_for_claim_of(self, slot: datetime) -> None:
        while not await self.has_claim_of(slot):
            await SystemClock().sleep(0.005)


async def _ignore(error: Exception) -> None:
    """Say nothing of a server that the test has killed."""
