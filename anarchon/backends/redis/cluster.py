"""The way to a cluster: each call goes to the node that holds its job, all nodes at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from redis.asyncio.connection import AbstractConnection

from anarchon.backends.redis import rights
from anarchon.backends.redis.batch import Batch, Target
from anarchon.backends.redis.connection import NO_RIGHT_TO_LOOK, Line, waiting
from anarchon.backends.redis.errors import raise_for, translated
from anarchon.backends.redis.facts import Facts, check, warn_of
from anarchon.backends.redis.keys import Keys
from anarchon.backends.redis.layout import check_layout, check_stamp, stamp
from anarchon.backends.redis.settings import Address, Settings
from anarchon.backends.redis.topology import SLOTS, Topology, slot_of
from anarchon.backends.redis.wire import Command, exchange, loads_for, refusals_in
from anarchon.clock import SystemClock
from anarchon.errors import OutcomeUnknown, StoreError, StoreRefused, StoreUnavailable
from anarchon.standing import Standing

#: While slots are moved a call may be sent on; it is not sent around for ever.
_ROUNDS = 5
#: A node that is well says at once who holds what.
_PATIENCE = 1.0
#: How long what may get lost is waited for once the rest was answered.
_GRACE = 0.25


class ClusterLink:
    """The ways to all primaries of a cluster, one connection each.

    redis-py's client for clusters is not used: it repeats requests that may have happened, and
    sends one command a trip. Who holds which slots is asked anew after whatever went wrong, of
    another node each time, for one that was cut off may not have heard.
    """

    def __init__(self, settings: Settings, keys: Keys, warn: Callable[[str], None]) -> None:
        self.label = settings.label
        self._settings = settings
        self._keys = keys
        self._warn = warn
        self._wait = waiting(settings)
        self._lines: dict[Address, Line] = {}
        self._facts: dict[Address, Facts] = {}
        self._topology: Topology | None = None
        self._is_stale = True
        self._is_stamped = False
        self._looks = 0

    async def open(self) -> None:
        """Find all nodes, and see that none of them will refuse what we will ask."""
        await self._look_again()
        await self._stamp()
        await self._check_rights()

    async def examine(self) -> Standing:
        """Look at all nodes over connections of their own; writes nothing."""
        link = ClusterLink(self._settings, self._keys, self._warn)
        try:
            return await link._look()
        finally:
            await link.close()

    async def close(self) -> None:
        """Let all connections go, and wait for their end."""
        self._is_stale = True
        lines, self._lines = self._lines, {}
        await asyncio.gather(*(line.close() for line in lines.values()))

    async def ask(
        self,
        commands: Sequence[Command],
        *,
        first: Sequence[Command] = (),
        replicated: bool = False,
    ) -> list[Any]:
        """Send each command to its node; return what each answered, or raise for all of them.

        ``first`` goes beside them and may get lost: the node it is for is another one, and that
        must not keep a job from running. For ``replicated`` see the link to one server.
        """
        beside = list(first)
        if self._is_stale:
            await self._look_again()
            # whatever was lost in between may have been this too
            beside.append(stamp(self._settings, self._keys.layout)[0])
        if not self._is_stamped:
            await self._stamp()
        batch = Batch(self._settings, [*beside, *commands], len(beside))
        await self._carry(batch, self._wait if replicated else ())
        return batch.answers()

    async def _stamp(self) -> None:
        batch = Batch(self._settings, stamp(self._settings, self._keys.layout), 0)
        await self._carry(batch, ())
        check_stamp(self._settings, self._keys.layout, batch.replies())
        self._is_stamped = True

    async def _carry(self, batch: Batch, wait: Sequence[Command]) -> None:
        """Bring a batch to its nodes, and to others that these name."""
        for _ in range(_ROUNDS):
            parts = batch.parts(self._target_of)
            beside = [
                asyncio.create_task(self._fly(batch, target, places, ()))
                for target, places in parts.items()
                if batch.is_optional(places)
            ]
            try:
                async with asyncio.TaskGroup() as group:
                    for target, places in parts.items():
                        if not batch.is_optional(places):
                            group.create_task(self._fly(batch, target, places, wait))
                if beside:
                    await asyncio.wait(beside, timeout=_GRACE)
            finally:
                for task in beside:
                    task.cancel()
                await asyncio.gather(*beside, return_exceptions=True)
            if not batch.is_redirected():
                break
        self._is_stale |= batch.refused()

    async def _fly(
        self, batch: Batch, target: Target, places: Sequence[int], wait: Sequence[Command]
    ) -> None:
        address, asking = target
        commands = [batch.commands[at] for at in places]
        try:
            line = self._line(address)
            if asking:
                replies, waited = await self._ask_importing(line, commands, wait)
            else:
                replies, waited = await line.send(commands, wait)
        except StoreError as error:
            batch.fail(places, error)
            return
        except asyncio.CancelledError:
            # whoever does not answer may have been replaced
            self._is_stale = True
            raise
        for slot, now_at in batch.hear(target, places, replies, waited):
            self._is_stale = True
            if self._topology is not None:
                self._topology.learn(slot, now_at)

    async def _ask_importing(
        self, line: Line, commands: Sequence[Command], wait: Sequence[Command]
    ) -> tuple[list[Any], list[Any]]:
        loads = loads_for(commands)
        told = [part for command in commands for part in (("ASKING",), command)]
        replies, waited = await line.send([*loads, *told], wait)
        return replies[len(loads) + 1 :: 2], waited

    def _target_of(self, command: Command) -> Target | None:
        assert self._topology is not None
        slot = slot_of(command)
        if slot is None:
            # all of a namespace are told the time by one node
            slot = slot_of(("GET", self._keys.layout))
        address = self._topology.primary_of(slot or 0)
        return None if address is None else (address, False)

    async def _look_again(self) -> None:
        """Learn who holds what, and let go of whoever holds nothing any more."""
        self._topology = await self._told_topology()
        self._is_stale = False
        for address in self._lines.keys() - set(self._topology.primaries):
            await self._lines.pop(address).leave()

    async def _told_topology(self) -> Topology:
        known = [] if self._topology is None else self._topology.primaries
        nodes = list(dict.fromkeys([*known, *self._settings.places]))
        self._looks += 1
        problems, refused = [], True
        for at in range(len(nodes)):
            address = nodes[(self._looks + at) % len(nodes)]
            try:
                async with SystemClock().timeout(_PATIENCE):
                    (told,), _ = await self._line(address).send([("CLUSTER", "SLOTS")])
                raise_for(
                    self._settings, refusals_in([told]), some_ran=False, place=_named(address)
                )
            except (StoreUnavailable, OutcomeUnknown) as error:
                problems.append(error.problem)
                refused &= isinstance(error, StoreRefused)
            except TimeoutError:
                refused = False
                problems.append(f"{_named(address)}: no answer within {_PATIENCE:.0f} s")
            else:
                if told:
                    return Topology(told, address)
                problems.append(f"{_named(address)}: knows of no slots")
        problem = f"no node says who holds what; {'; '.join(dict.fromkeys(problems))}"
        raise (StoreRefused if refused else StoreUnavailable)(self.label, problem)

    def _line(self, address: Address) -> Line:
        if address not in self._lines:
            connect = partial(self._connect, address)
            self._lines[address] = Line(self._settings, connect, _named(address))
        return self._lines[address]

    async def _connect(self, address: Address) -> AbstractConnection:
        connection = self._settings.new_connection(address)
        place = _named(address)
        try:
            with translated(self._settings, sent=False, place=place):
                await connection.connect()  # type: ignore[no-untyped-call]
                # waits for nobody, but says whether we have the right to
                rights_to_wait: list[Command] = [("WAIT", 0, 0) for _ in self._wait]
                info, *waited = await exchange(connection, [("INFO",), *rights_to_wait])
            facts = self._facts[address] = Facts.of(info)
            check(self._settings, facts)
            if not facts.is_replica:
                raise_for(self._settings, refusals_in(waited), some_ran=False, place=place)
                warn_of(self._settings, facts, self._warn, place)
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return connection

    async def _check_rights(self) -> None:
        """See that no primary will refuse what we will ask."""
        assert self._topology is not None
        questions = rights.questions(self._settings, self._keys.layout)
        for address in self._topology.primaries:
            replies, _ = await self._line(address).send(questions)
            rights.check_rights(self._settings, replies, _named(address))

    async def _look(self) -> Standing:
        self._topology = await self._told_topology()
        uncovered = self._topology.uncovered
        if uncovered:
            problem = f"no node holds {uncovered} of its {SLOTS} hash slots: their jobs cannot run"
            raise StoreUnavailable(self.label, problem)
        await self._check_rights()
        if not all(self._facts[address].told for address in self._topology.primaries):
            self._warn(NO_RIGHT_TO_LOOK)
        batch = Batch(self._settings, [("GET", self._keys.layout)], 0)
        await self._carry(batch, ())
        (layout,) = batch.answers()
        if layout is not None:
            check_layout(self._settings, self._keys.layout, layout)
        primaries = self._topology.primaries
        server = f"{self._facts[primaries[0]].server}, a cluster of {len(primaries)}"
        return Standing(server, layout is not None)


def _named(address: Address) -> str:
    return f"{address[0]}:{address[1]}"
