"""A batch on its way through a cluster: who is asked what, and what was heard so far."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from redis.exceptions import AskError, MovedError, RedisError

from anarchon.backends.redis.errors import (
    is_beforehand,
    raise_for,
    raise_unless_acknowledged,
)
from anarchon.backends.redis.settings import Address, Settings
from anarchon.backends.redis.topology import address_in
from anarchon.backends.redis.wire import Command, has_run, refusals_in
from anarchon.errors import OutcomeUnknown, StoreError, StoreUnavailable

#: A node, and whether it must be told that it is to answer for what it does not hold yet.
Target = tuple[Address, bool]


class Batch:
    """Commands for several nodes; the first ``optional`` of them may get lost.

    A batch is answered whole or fails whole. Where a part of it may have happened, so may all
    of it.
    """

    def __init__(self, settings: Settings, commands: Sequence[Command], optional: int) -> None:
        self.commands = commands
        self._settings = settings
        self._optional = optional
        self._replies: list[Any] = [None] * len(commands)
        self._left = set(range(len(commands)))
        self._asked_for: dict[int, Target] = {}
        self._failures: list[StoreError] = []
        self._waited: list[Any] = []
        self._some_ran = False

    def parts(self, target_of: Callable[[Command], Target | None]) -> Mapping[Target, list[int]]:
        """Return the places of what is still to be asked, by whom to ask."""
        parts: defaultdict[Target, list[int]] = defaultdict(list)
        for at in sorted(self._left):
            target = self._asked_for.pop(at, None) or target_of(self.commands[at])
            if target is not None:
                parts[target].append(at)
                continue
            self._left.discard(at)
            if at >= self._optional:
                problem = "no node of the cluster holds the keys of some jobs"
                self._failures.append(StoreUnavailable(self._settings.label, problem))
        return parts

    def is_optional(self, places: Sequence[int]) -> bool:
        return all(at < self._optional for at in places)

    def fail(self, places: Sequence[int], error: StoreError) -> None:
        """Note that these were not answered."""
        self._left.difference_update(places)
        may_get_lost = isinstance(error, StoreUnavailable | OutcomeUnknown)
        if not (may_get_lost and self.is_optional(places)):
            self._failures.append(error)

    def hear(
        self, target: Target, places: Sequence[int], replies: Sequence[Any], waited: Sequence[Any]
    ) -> list[tuple[int, Address]]:
        """Note what these were answered; return which hash slots have moved, and where to."""
        moved = []
        for at, reply in zip(places, replies, strict=True):
            if isinstance(reply, AskError):
                # a move is told in the same words
                address = address_in(reply.host, reply.port, target[0])
                has_moved = isinstance(reply, MovedError)
                if has_moved:
                    moved.append((reply.slot_id, address))
                self._asked_for[at] = (address, not has_moved)
            else:
                self._left.discard(at)
            self._replies[at] = reply
        if has_run([self.commands[at] for at in places], replies):
            self._some_ran = True
            # of a part that was only redirected there is nothing to wait for
            self._waited.extend(waited)
        return moved

    def is_redirected(self) -> bool:
        return bool(self._left)

    def refused(self) -> bool:
        """Tell whether a node did not answer as it should."""
        return bool(self._failures) or any(isinstance(r, RedisError) for r in self._replies)

    def replies(self) -> list[Any]:
        """Return what was said to all that may not get lost, refusals too, or raise for all."""
        self._raise_failures()
        heard = self._replies[self._optional :]
        moving = next((each for each in heard if isinstance(each, AskError)), None)
        if moving is not None:
            kind = OutcomeUnknown if self._some_ran else StoreUnavailable
            problem = f"its hash slots are being moved ({moving})"
            raise kind(self._settings.label, problem) from moving
        return heard

    def answers(self) -> list[Any]:
        """Return what was answered to all that may not get lost, or raise for all of it."""
        try:
            heard = self.replies()
            lost = [reply for reply in self._replies[: self._optional] if _is_broken(reply)]
            raise_for(self._settings, [*refusals_in(heard), *lost], some_ran=self._some_ran)
        except (StoreUnavailable, OutcomeUnknown) as error:
            # other nodes and hash slots may answer
            error.partly = True
            raise
        raise_unless_acknowledged(self._settings, self._waited)
        return heard

    def _raise_failures(self) -> None:
        if not self._failures:
            return
        failures = self._failures
        passing = (StoreUnavailable, OutcomeUnknown)
        worst = next((each for each in failures if not isinstance(each, passing)), None)
        if worst is not None:
            raise worst
        unknown = next((each for each in failures if isinstance(each, OutcomeUnknown)), None)
        if unknown is None and self._some_ran:
            problem = f"{failures[0].problem}; other nodes have answered"
            unknown = OutcomeUnknown(self._settings.label, problem)
            raise unknown from failures[0]
        raise unknown or failures[0]


def _is_broken(reply: Any) -> bool:
    return (
        isinstance(reply, RedisError)
        and not isinstance(reply, AskError)
        and not is_beforehand(reply)
    )
