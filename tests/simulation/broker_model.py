"""The other half of the searched world: messages of tracked runs, and the workers they reach.

A broker delivers a message, perhaps twice. A worker asks to begin, works, and ends the run or
sends the message of a retry and then says so. It may die at any step, with its message or
without, freeze until its lease lapsed, and miss an answer, or have its question arrive again
long after.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from anarchon.run import RunState
from tests.simulation import promises
from tests.simulation.store_model import Store
from tests.simulation.world import Delivery, Message, World, put, unused

T = TypeVar("T")


@dataclass(frozen=True)
class Broker:
    store: Store
    retries: int

    def steps(self, world: World) -> Iterator[tuple[str, World]]:
        for message in dict.fromkeys(world.messages):
            yield from self._deliveries(world, message)
        for delivery in world.deliveries:
            yield from self._worker_steps(world, delivery)
        for echo in world.echoes:
            accepted, begun = self._begin(world, echo)
            gone = begun._replace(echoes=_without(world.echoes, echo))
            yield f"the question of delivery {echo.nonce} arrives again: {accepted}", gone

    def _deliveries(self, world: World, message: Message) -> Iterator[tuple[str, World]]:
        nonce = unused(world.nonces())
        delivery = Delivery(message.slot, message.retry, "begin", message.token, nonce)
        came = world._replace(deliveries=(*world.deliveries, delivery))
        label = f"token {message.token}, retry {message.retry} comes as delivery {nonce}"
        yield label, came._replace(messages=_without(world.messages, message))
        if world.faults:
            yield f"{label}, and will again", came._replace(faults=world.faults - 1)

    def _worker_steps(self, world: World, mine: Delivery) -> Iterator[tuple[str, World]]:
        if mine.stage in ("begin", "asked"):
            yield from self._beginnings(world, mine)
        elif mine.stage == "body":
            yield self._end(world, mine)
            if mine.retry < self.retries:
                message = Message(mine.slot, mine.retry + 1, mine.token)
                sent = world._replace(messages=(*world.messages, message))
                yield f"delivery {mine.nonce} is to be retried", _at(sent, mine, "retries")
        else:
            accepted, stored = self.store.mark(
                world, mine.slot, mine.token, mine.nonce, mine.retry + 1
            )
            marked = promises.written(world, stored, mine.slot, mine.token, mine.nonce)
            label = f"delivery {mine.nonce} marks its retry as queued: {accepted}"
            yield label, _gone(marked, mine)
        if world.faults:
            yield from self._troubles(world._replace(faults=world.faults - 1), mine)

    def _beginnings(self, world: World, mine: Delivery) -> Iterator[tuple[str, World]]:
        accepted, begun = self._begin(world, mine)
        label = f"delivery {mine.nonce} of token {mine.token}, retry {mine.retry}"
        if not accepted:
            yield f"{label} may not begin", _gone(begun, mine)
        else:
            at_work = promises.started(begun, mine.token, mine.retry)
            yield f"{label} begins", _at(at_work, mine, "body")
        if mine.stage == "asked" or not world.faults:
            return
        if accepted:
            less = begun._replace(faults=world.faults - 1)
            yield f"{label} begins, the answer is lost", _at(less, mine, "asked")
        waits = world._replace(faults=world.faults - 1, echoes=(*world.echoes, mine))
        yield f"{label} waits no longer for an answer", _at(waits, mine, "asked")

    def _begin(self, world: World, mine: Delivery) -> tuple[bool, World]:
        accepted, stored = self.store.begin(world, mine.slot, mine.token, mine.retry, mine.nonce)
        if not accepted:
            return False, world
        return True, promises.begun(world, stored, mine.slot, mine.token, mine.nonce)

    def _end(self, world: World, mine: Delivery) -> tuple[str, World]:
        accepted, stored = self.store.finish(
            world, mine.slot, mine.token, RunState.SUCCESS, mine.nonce
        )
        if not accepted:
            return f"delivery {mine.nonce} may not end its run", _gone(world, mine)
        ended = promises.finished(world, stored, mine.slot, mine.token, mine.nonce)
        return f"delivery {mine.nonce} ends its run", _gone(ended, mine)

    def _troubles(self, less: World, mine: Delivery) -> Iterator[tuple[str, World]]:
        label = f"the worker of delivery {mine.nonce} dies"
        unread = mine.stage in ("begin", "asked")
        yield label, _gone(less, mine)._replace(lost_message=less.lost_message or unread)
        message = Message(mine.slot, mine.retry, mine.token)
        back = less._replace(messages=(*less.messages, message))
        yield f"{label}, its message goes back", _gone(back, mine)
        kept = less.stored.runs[mine.slot]
        if kept is not None and kept.nonce == mine.nonce and kept.leased:
            lapsed = kept._replace(leased=False)
            runs = put(less.stored.runs, mine.slot, lapsed)
            frozen = less._replace(stored=less.stored._replace(runs=runs))
            yield f"the worker of delivery {mine.nonce} freezes, its lease lapses", frozen


def _at(world: World, delivery: Delivery, stage: str) -> World:
    others = _without(world.deliveries, delivery)
    return world._replace(deliveries=(*others, delivery._replace(stage=stage)))


def _gone(world: World, delivery: Delivery) -> World:
    return world._replace(deliveries=_without(world.deliveries, delivery))


def _without(values: tuple[T, ...], value: T) -> tuple[T, ...]:
    index = values.index(value)
    return (*values[:index], *values[index + 1 :])
