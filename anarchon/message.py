"""What the message of a published run says of it, whatever the broker.

Every message carries one mapping under ``HEADER``: job, slot, attempt, token and fence. The
message of a tracked run says more: what its worker must know to ask whether it may begin, and
what to do where nobody answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from anarchon.clock import MILLISECOND, rfc3339
from anarchon.run import OnStoreError, RunContext, idempotency_key

HEADER = "anarchon"

_LONGEST_LEASE = timedelta(days=3650)


class Malformed(ValueError):
    """The mapping is not one that a publisher of ours wrote."""


@dataclass(frozen=True, slots=True)
class PublishedRun:
    """The run that a message stands for, as its worker reads it.

    ``lease`` and ``on_store_error`` are there if it is tracked, and only then does anybody wait
    to hear how it ends.
    """

    namespace: str
    job: str
    slot: datetime
    attempt: int
    token: str
    fence: int
    lease: timedelta | None = None
    on_store_error: OnStoreError | None = None

    @property
    def is_tracked(self) -> bool:
        return self.lease is not None

    @property
    def idempotency_key(self) -> str:
        """A text that is the same for every attempt at this slot, and for nothing else."""
        return idempotency_key(self.namespace, self.job, self.slot)

    def line(self) -> str:
        """Return what a line of a log says of it."""
        return f"job={self.job} slot={rfc3339(self.slot)} attempt={self.attempt}"


def mapping_of(ctx: RunContext) -> dict[str, object]:
    """Return what a publisher is to put under ``HEADER``."""
    said: dict[str, object] = {
        "namespace": ctx.namespace,
        "job": ctx.job,
        "slot": rfc3339(ctx.slot),
        "attempt": ctx.attempt,
        "token": ctx.token,
        "fence": ctx.fence,
    }
    if ctx.tracking is not None:
        said["lease"] = ctx.tracking.lease // MILLISECOND
        said["on_store_error"] = ctx.tracking.on_store_error.value
    return said


def run_of(said: object) -> PublishedRun:
    """Read such a mapping; raises ``Malformed``, which says what is wrong with it."""
    if not isinstance(said, Mapping):
        raise Malformed(f"{said!r} is not a mapping")
    lease = said.get("lease")
    return PublishedRun(
        namespace=_text(said, "namespace"),
        job=_text(said, "job"),
        slot=_moment(said, "slot"),
        attempt=_number(said, "attempt"),
        token=_text(said, "token"),
        fence=_number(said, "fence"),
        lease=None if lease is None else _length(said, "lease"),
        on_store_error=None if lease is None else _rule(said, "on_store_error"),
    )


def _text(said: Mapping[object, object], key: str) -> str:
    value = said.get(key)
    if not isinstance(value, str) or not value:
        raise Malformed(f"its {key} is {value!r}")
    return value


def _number(said: Mapping[object, object], key: str) -> int:
    value = said.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise Malformed(f"its {key} is {value!r}")
    return value


def _length(said: Mapping[object, object], key: str) -> timedelta:
    millis = _number(said, key)
    if millis > _LONGEST_LEASE // MILLISECOND:
        raise Malformed(f"its {key} is {millis!r}")
    return millis * MILLISECOND


def _moment(said: Mapping[object, object], key: str) -> datetime:
    text = _text(said, key)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Malformed(f"its {key} is {text!r}") from None
    if moment.tzinfo is None:
        raise Malformed(f"its {key} is {text!r}")
    return moment


def _rule(said: Mapping[object, object], key: str) -> OnStoreError:
    text = _text(said, key)
    try:
        return OnStoreError(text)
    except ValueError:
        raise Malformed(f"its {key} is {text!r}") from None
