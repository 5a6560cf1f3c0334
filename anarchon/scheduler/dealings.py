"""What a scheduler has to do with its store, whatever kind that is.

There are two kinds, each with parts of its own: ``by_leases`` and ``by_claims``. Which it is
is settled once, at start, by what the backend offers.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from anarchon.calling import Calling
from anarchon.job import Job
from anarchon.scheduler.executor import Executor
from anarchon.scheduler.timers import Due


class Dealings(Protocol):
    """All protocol between one scheduler and its store."""

    @property
    def calling(self) -> Calling:
        """The way to the store."""

    @property
    def executor(self) -> Executor:
        """What carries out the slots that were won."""

    def start(self) -> None:
        """Start what has to run before the first claim."""

    async def begin(self, jobs: Sequence[Job]) -> datetime:
        """See to what was missed or left unfinished; return the time the timers go on from.

        Raises what the store raises.
        """

    async def watch(self) -> None:
        """See to what no timer stands for; returns when there is no such thing."""

    def fire(self, due: Due) -> None:
        """Claim a slot whose moment has come, and do what follows, beside the caller."""

    async def after_gap(self, jobs: Sequence[Job]) -> None:
        """See to what happened while this process or the store was away."""

    async def keep_up(self, jobs: Sequence[Job]) -> None:
        """Do what is to be done every hour or so."""

    async def stop_looking(self) -> None:
        """Claim nothing any more that no timer has handed out."""

    async def stop(self) -> None:
        """Let go of what was started; nothing of this scheduler runs any more."""
