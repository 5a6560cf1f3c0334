"""How old a message may be when its actor starts: ``max_age``, ours and the user's.

Ours is the start deadline of a tracked run, and about the start alone: it is taken off a
message that starts, for its retries may come much later. What the user has written is the
start deadline too where the job names none, and holds for retries as well. A first message
that AgeLimit is going to drop does not begin its run: nobody began what it was sent for, and
so it ends as ``expired``.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from dramatiq import Actor, Broker
from dramatiq.common import current_millis
from dramatiq.middleware import AgeLimit

from anarchon.clock import MILLISECOND
from anarchon.durations import duration
from anarchon.message import HEADER
from anarchon_dramatiq.periodic import check_millis

#: In our note: what ``max_age`` is to be for the retries, once ours has served.
OWN_AGE = "max_age"

_OPTION = "max_age"
_SHORTEST = timedelta(seconds=1)


def job_options(
    actor: Actor[..., Any],
    message: Mapping[str, Any],
    job: Mapping[str, Any],
    defaults: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the options of a job, with the start deadline that its message's options mean."""
    settled = {**defaults, **job}
    actors = actor.options.get(_OPTION)
    check_millis(_OPTION, actors)
    limit = message.get(_OPTION) or actors
    if not limit or not settled.get("track") or job.get("start_within") is not None:
        return dict(job)
    usual = duration(settled.get("start_within") or "1h", option="start_within")
    if limit >= usual / MILLISECOND:
        return dict(job)
    return {**job, "start_within": max(limit * MILLISECOND, _SHORTEST)}


def limit_start(
    options: dict[str, Any], note: dict[str, object], actor: Actor[..., Any], ours: int
) -> None:
    """Let a message be no older than this many milliseconds, unless it must be younger anyway."""
    own = options.get(_OPTION)
    theirs = own or _limit_of(actor.broker, actor)
    if not theirs or ours < theirs:
        options[_OPTION], note[OWN_AGE] = ours, own


def take_off(message: Any) -> None:
    """Take our limit off a message that starts."""
    said = message.options[HEADER]
    if OWN_AGE not in said:
        return
    own = said[OWN_AGE]
    message.options[HEADER] = {key: said[key] for key in said if key != OWN_AGE}
    if own is None:
        message.options.pop(_OPTION, None)
    else:
        message.options[_OPTION] = own


def is_too_old(broker: Broker, message: Any, *, by_ours: bool) -> bool:
    """Tell whether AgeLimit drops a message, by our limit too or by the user's alone.

    What one of the user's own making does nobody knows before.
    """
    if not any(type(one) is AgeLimit for one in broker.middleware):
        return False
    own = message.options.get(_OPTION)
    if not by_ours:
        own = message.options[HEADER].get(OWN_AGE, own)
    limit = own or _limit_of(broker, broker.get_actor(message.actor_name))
    return bool(limit) and current_millis() - message.message_timestamp >= limit


def _limit_of(broker: Broker, actor: Actor[..., Any]) -> int | None:
    default = next((one.max_age for one in broker.middleware if isinstance(one, AgeLimit)), None)
    limit: int | None = actor.options.get(_OPTION, default)
    return limit
