"""Publishes a periodic actor by its own ``send_with_options``, with a note of the run.

What the message says of time is counted from the slot, so that a run that is late does not
live longer than one in time. The message of a tracked run expires when nobody may begin it any
more, and its ``timeout`` is its time limit; smaller limits of the message or the actor stay.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from dramatiq import Actor

from anarchon import RunContext, SystemClock
from anarchon.clock import MILLISECOND
from anarchon.message import HEADER, mapping_of
from anarchon.run import Tracking
from anarchon_dramatiq.ages import limit_start
from anarchon_dramatiq.periodic import Periodic
from anarchon_dramatiq.way import Way


class DramatiqPublisher:
    """Sends the message of one schedule; all schedules of a scheduler share the way."""

    def __init__(self, actor: Actor[..., Any], periodic: Periodic, way: Way) -> None:
        self.actor = actor
        self.task = actor.actor_name
        self.sends_to = way.address
        self._periodic = periodic
        self._way = way
        self._clock = SystemClock()

    def __repr__(self) -> str:
        return f"<DramatiqPublisher {self.task}>"

    def publish(self, ctx: RunContext) -> str:
        """Send a message of its own and return its id, once the broker has confirmed it."""
        said = self._periodic
        sent = self._way.send(
            self.actor, args=said.args, kwargs=dict(said.kwargs), **self._options(ctx)
        )
        return str(sent.message_id)

    def _options(self, ctx: RunContext) -> dict[str, Any]:
        options = dict(self._periodic.options)
        note = mapping_of(ctx)
        now = self._clock.wall()
        # work that was begun and is taken over has a start deadline of its own, and is not late
        if options.get("max_age") and (ctx.tracking is None or ctx.attempt == 1):
            options["max_age"] = max(1, options["max_age"] - (now - ctx.slot) // MILLISECOND)
        if ctx.tracking is not None:
            # dramatiq takes 0 for no limit at all
            ours = max(1, (ctx.tracking.start_by - now) // MILLISECOND)
            limit_start(options, note, self.actor, ours)
            self._limit(options, ctx.tracking)
        options[HEADER] = note
        return options

    def _limit(self, options: dict[str, Any], tracking: Tracking) -> None:
        if tracking.timeout is None:
            return
        limit = tracking.timeout / timedelta(milliseconds=1)
        own = options.get("time_limit") or self.actor.options.get("time_limit")
        options["time_limit"] = min(own, limit) if own else limit


def sample_of(actor: Actor[..., Any], periodic: Periodic) -> bytes:
    """Return the message of a schedule as it will be encoded; raises what forbids it."""
    options = {name: value for name, value in periodic.options.items() if name != "delay"}
    message = actor.message_with_options(
        args=periodic.args, kwargs=dict(periodic.kwargs), **options
    )
    return message.encode()
