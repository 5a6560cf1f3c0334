"""What a question must hear that is asked a second time, whatever the rules say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anarchon.store import ClaimAnswer, Outcome


def may_come_twice(kind: str, asked: Sequence[Any]) -> bool:
    """Tell whether this must hear the same when it is asked again."""
    if kind == "begin":
        # where one call begins a run and its retry, the first is too old the next time
        return len({(one.job, one.slot) for one in asked}) == len(asked)
    if kind == "renew":
        # a mark that is noted already is refused, which is harmless
        return all(one.waiting is None for one in asked)
    return kind in ("claim", "finish", "release")


def heard(before: object, again: object) -> object:
    """Return what a question must hear that is asked again, and heard this before."""
    if isinstance(before, ClaimAnswer) and before.outcome is Outcome.OVERLAP:
        # it left the mark of a skipped slot, which a catch-up takes as done
        assert isinstance(again, ClaimAnswer)
        return again if again.outcome is Outcome.DONE else before
    return before
