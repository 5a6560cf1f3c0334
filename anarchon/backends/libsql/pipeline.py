"""The HTTP pipeline of a libSQL server: a batch of statements in one request.

Of the protocol (Hrana over HTTP, version 2; 3 has the same) only this is used: a batch, whose
steps may depend on the steps before them, and the end of the stream that it opened.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import aiohttp

from anarchon.backends.libsql.faults import Answered, LookLost, StepFailed, translating
from anarchon.backends.libsql.settings import Settings

Value: TypeAlias = str | int | None
Rows: TypeAlias = list[list[Any]]
Condition: TypeAlias = dict[str, Any]

#: How long a connection is kept while nobody asks, in seconds. Longer than the pauses between
#: heartbeats; the servers keep theirs for longer.
_KEPT = 60.0
#: How long connecting may take, in seconds.
_CONNECTING = 10.0


@dataclass(frozen=True, slots=True)
class Step:
    """A statement of a batch; ``when`` says on which steps before it it depends."""

    sql: str
    values: tuple[Value, ...] = ()
    when: Condition | None = None


def after(step: int) -> Condition:
    """Return the condition that a step was run and did not fail."""
    return {"type": "ok", "step": step}


def after_all_but(step: int, failed: int) -> Condition:
    """Return the condition that one step succeeded, and another one did not."""
    return {"type": "and", "conds": [after(step), {"type": "not", "cond": after(failed)}]}


#: Makes a batch one that writes, though this is never run: a replica hands it on to its
#: primary, and a token that may only read is refused.
AT_THE_PRIMARY = Step("delete from anarchon_job where false", when=after_all_but(0, failed=0))


def transaction(steps: Sequence[Step]) -> list[Step]:
    """Return a batch that does all of these or nothing; they come after its first step."""
    inner = [Step(step.sql, step.values, after(number)) for number, step in enumerate(steps)]
    commit = len(inner) + 1
    return [
        Step("begin immediate"),
        *inner,
        Step("commit", when=after(commit - 1)),
        Step("rollback", when=after_all_but(0, failed=commit)),
    ]


class Pipeline:
    """Sends batches, one at a time; connects by itself."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._url = f"{settings.base}/v2/pipeline"
        self._http: aiohttp.ClientSession | None = None

    async def run(self, steps: Sequence[Step], *, writes: bool = False) -> list[Rows]:
        """Run a batch and return the rows of each step, none for a step that was not run.

        ``writes`` says that it may have happened where no answer came. Raises our errors, and
        ``StepFailed`` for the first step that the server refused.
        """
        try:
            answer = await self._send(steps, writes)
        except LookLost:
            # a connection that was kept may have ended without our hearing of it
            answer = await self._send(steps, writes)
        answer.check()
        return _rows(answer, len(steps))

    async def _send(self, steps: Sequence[Step], writes: bool) -> Answered:
        label = self._settings.label
        with translating(label, writes=writes):
            body = _request(steps)
            # a redirect could lead the token to anybody
            async with self._client().post(self._url, data=body, allow_redirects=False) as response:
                return Answered(label, writes, response.status, await response.read())

    async def version(self) -> str:
        """Return what the server calls itself, if it says so."""
        with translating(self._settings.label, writes=False):
            async with self._client().get(
                f"{self._settings.base}/version", allow_redirects=False
            ) as response:
                told = (await response.read()).decode("utf-8", "replace")
        said = response.status == 200 and told.startswith("sqld ")
        return " ".join(told.split()[:2]) if said else "a libSQL server"

    async def close(self) -> None:
        """Let the connection go, if there is one."""
        http, self._http = self._http, None
        if http is not None:
            await http.close()

    def _client(self) -> aiohttp.ClientSession:
        if self._http is None:
            # small answers, which would take longer to unpack than to send
            headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
            if self._settings.token is not None:
                headers["Authorization"] = f"Bearer {self._settings.token}"
            self._http = aiohttp.ClientSession(
                headers=headers,
                connector=aiohttp.TCPConnector(keepalive_timeout=_KEPT),
                cookie_jar=aiohttp.DummyCookieJar(),
                # a deadline comes from whoever calls, by cancellation
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECTING),
            )
        return self._http


def _request(steps: Sequence[Step]) -> bytes:
    batch = {"type": "batch", "batch": {"steps": [_step(step) for step in steps]}}
    # without a baton the stream is new, and nobody else's
    request = {"baton": None, "requests": [batch, {"type": "close"}]}
    return json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode()


def _step(step: Step) -> dict[str, Any]:
    statement = {"sql": step.sql, "args": [_value(value) for value in step.values]}
    told: dict[str, Any] = {"stmt": statement}
    if step.when is not None:
        told["condition"] = step.when
    return told


def _value(value: Value) -> dict[str, Any]:
    if value is None:
        return {"type": "null"}
    if isinstance(value, int):
        return {"type": "integer", "value": str(value)}
    return {"type": "text", "value": value}


def _rows(answered: Answered, steps: int) -> list[Rows]:
    batch = answered.batch()
    try:
        results, errors = batch["step_results"], batch["step_errors"]
        if len(results) != steps or len(errors) != steps:
            raise answered.not_understood()
        for number, error in enumerate(errors):
            if error is not None:
                raise StepFailed(answered.store, number, error["message"], error.get("code") or "")
        return [
            [] if result is None else [[_plain(v) for v in row] for row in result["rows"]]
            for result in results
        ]
    except (KeyError, TypeError, AttributeError, ValueError):
        raise answered.not_understood() from None


def _plain(value: dict[str, Any]) -> Any:
    if value["type"] == "integer":
        return int(value["value"])
    return None if value["type"] == "null" else value["value"]
