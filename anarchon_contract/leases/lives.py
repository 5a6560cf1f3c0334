"""The question that a move in the life of a run asks."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from anarchon.record import Run
from anarchon.run import RunState
from anarchon.store import Begin, Finish, Prune, Release, Renewal, Waiting
from anarchon_contract.leases.drawn import HOUR, Move


def asked_by(move: Move, job: str, slot: datetime, run: Run | None) -> tuple[str, Any]:
    """Return what is called, and the question; most often it is of whoever has the run."""
    own = (run and run.token) or "nobody's"
    spent = run.spent[-1] if run and run.spent else own
    if move.verb == "prune":
        return "prune", Prune(job, move.way, timedelta(0))
    if move.verb == "release":
        return "release", Release(job, slot, (own, own, spent)[move.way], move.way > 0)
    if run is None:
        nonce, holder, retry = None, None, 0
    else:
        nonce, holder, retry = run.nonce, run.holder, run.retry
    if move.verb == "finish":
        token, delivery = ((own, nonce), (own, None), (spent, nonce))[move.way]
        return "finish", Finish(job, slot, token, RunState.FAILED, nonce=delivery)
    if move.verb == "begin":
        number, delivery = ((retry, "n1"), (retry, nonce or "n2"), (retry + 1, "n3"))[move.way]
        return "begin", Begin(job, slot, own, number, delivery, f"pod {delivery}", "m")
    if move.verb == "mark":
        return "renew", Renewal(job, slot, own, waiting=Waiting())
    if move.verb == "retry":
        waiting = Waiting(nonce or "n1", retry + 1, move.way * HOUR)
        return "renew", Renewal(job, slot, own, waiting=waiting)
    return "renew", Renewal(job, slot, own, (holder, holder, None)[move.way])
