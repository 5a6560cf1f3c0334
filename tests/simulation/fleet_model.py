"""A small world around the real rules: instances, a network, a broker, and time in jumps.

Every claim, begin, mark, finish, release and prune here is a call of the rules. The world adds
what the rules cannot see: instances that die or freeze at any step, answers that get lost,
requests that arrive late or twice, a clock that runs ahead, and pruning at any moment; for
tracked runs also what ``broker_model`` adds.

Leases are far away until a step lets one lapse, and so are start deadlines. Time is the
*phase*: in phase ``n`` slot ``n`` is in time, older ones are late, newer ones are not due.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property

from anarchon.run import Overlap, RunState
from anarchon.store import Mode, Outcome, Terms
from tests.simulation import promises
from tests.simulation.broker_model import Broker
from tests.simulation.naming import key_of
from tests.simulation.store_model import Rules, Store
from tests.simulation.world import Kept, Local, Message, Stored, Wire, World, put, unused


@dataclass(frozen=True)
class Model:
    """The world's size and what may go wrong in it.

    ``faults`` is how many of its troubles there are in one history, ``claims`` how many claims
    and looks with a token of their own, ``retries`` how often a tracked task may be retried.
    """

    instances: int = 2
    slots: int = 1
    faults: int = 1
    claims: int = 5
    max_attempts: int = 3
    overlap: Overlap = Overlap.SKIP
    fast_clock: bool = False
    stops: bool = False
    catch_up: bool = False
    tracked: bool = False
    retries: int = 0
    deadlines: bool = False
    rules: Rules = field(default=Rules())

    @cached_property
    def store(self) -> Store:
        begins_as = RunState.CLAIMED if self.tracked else RunState.RUNNING
        start_within = timedelta(days=1) if self.tracked else None
        lease = timedelta(seconds=15)
        terms = Terms(lease, self.overlap, self.max_attempts, begins_as, start_within)
        return Store(self.rules, terms)

    def start(self) -> World:
        nobody = (None,) * self.slots
        return World(
            phase=0,
            stored=Stored(-1, nobody),
            up=("up",) * self.instances,
            local=((Local(),) * self.slots,) * self.instances,
            wire=(),
            messages=(),
            deliveries=(),
            echoes=(),
            faults=self.faults,
            claims=self.claims,
            lost_message=False,
            over=(False,) * self.slots,
            owner=nobody,
            granted=(),
            runner=nobody,
            starts=(),
        )

    def key(self, world: World) -> Hashable:
        return key_of(world, alike=not self.fast_clock)

    def broken(self, world: World) -> str | None:
        return world.broken or promises.broken(world, self.overlap, self.store)

    def steps(self, world: World) -> Iterator[tuple[str, World]]:
        if world.phase < self.slots:
            yield f"time: slot {world.phase} is over", world._replace(phase=world.phase + 1)
        yield from self._store_steps(world)
        for instance in range(self.instances):
            if world.up[instance] == "frozen":
                yield f"{instance} thaws", world._replace(up=put(world.up, instance, "up"))
            if world.up[instance] != "up":
                continue
            for slot in range(self.slots):
                yield from self._instance_steps(world, instance, slot)
            if world.faults:
                for fate in ("dead", "frozen"):
                    up = put(world.up, instance, fate)
                    yield f"{instance} is {fate}", world._replace(faults=world.faults - 1, up=up)
        for request in world.wire:
            yield from self._arrivals(world, request)
        if self.tracked:
            yield from Broker(self.store, self.retries).steps(world)

    def _store_steps(self, world: World) -> Iterator[tuple[str, World]]:
        for slot, kept in enumerate(world.stored.runs):
            if kept is None:
                continue
            if not kept.is_unfinished:
                pruned = self.store.prune(world, slot)
                yield f"prune up to {slot}", world._replace(stored=pruned)
                continue
            if kept.leased and not self._is_kept(world, slot, kept):
                yield f"lease of {slot} lapses", _with_run(world, slot, kept._replace(leased=False))
            if self.deadlines and kept.startable:
                over = kept._replace(startable=False)
                yield f"start deadline of {slot} passes", _with_run(world, slot, over)

    def _is_kept(self, world: World, slot: int, kept: Kept) -> bool:
        if kept.nonce is not None:
            at_work = ("body", "retries")
            return any(d.nonce == kept.nonce and d.stage in at_work for d in world.deliveries)
        return any(
            world.up[i] == "up"
            and world.local[i][slot].token == kept.token
            and world.local[i][slot].knows in ("run", "publish")
            for i in range(self.instances)
        )

    def _instance_steps(
        self, world: World, instance: int, slot: int
    ) -> Iterator[tuple[str, World]]:
        local = world.local[instance][slot]
        if local.knows == "idle":
            yield from self._firsts(world, instance, slot)
        elif local.knows == "watch":
            yield from self._send(world, instance, slot, Mode.TAKEOVER)
        elif local.token is not None and local.knows != "sent":
            yield from self._holder_steps(world, instance, slot, local, local.token)

    def _firsts(self, world: World, instance: int, slot: int) -> Iterator[tuple[str, World]]:
        ahead = self.fast_clock and instance == 0
        if world.phase > slot:
            yield f"{instance} finds {slot} late", know(world, instance, slot, Local("watch"))
            if self.catch_up and world.phase == self.slots == slot + 1:
                yield from self._send(world, instance, slot, Mode.CATCH_UP)
        elif world.phase == slot or ahead:
            yield from self._send(world, instance, slot, Mode.SCHEDULED)

    def _holder_steps(
        self, world: World, instance: int, slot: int, local: Local, token: int
    ) -> Iterator[tuple[str, World]]:
        if local.knows == "unknown":
            sent = Wire(instance, slot, Mode(local.mode), True, token)
            waiting = know(world, instance, slot, local._replace(knows="sent"))
            yield f"{instance} asks again for {slot}", _with_request(waiting, sent)
            yield self._give_back(world, instance, slot, token, Local("watch"))
            return
        if local.knows == "mark":
            yield from self._markings(world, instance, slot, token)
            return
        if local.knows == "run":
            yield self._finish(world, instance, slot, token)
        else:
            sent_on = world._replace(messages=(*world.messages, Message(slot, 0, token)))
            marking = know(sent_on, instance, slot, Local("mark", token))
            yield f"{instance} publishes {slot}", marking
        if self.stops:
            label, left = self._give_back(world, instance, slot, token, Local("off"))
            yield f"{label} and stops", left._replace(up=put(world.up, instance, "stopped"))

    def _send(
        self, world: World, instance: int, slot: int, mode: Mode
    ) -> Iterator[tuple[str, World]]:
        if not world.claims:
            return
        token = unused(world.tokens())
        waiting = know(world, instance, slot, Local("sent", token, mode.value))
        sent = _with_request(waiting, Wire(instance, slot, mode, False, token))
        yield (
            f"{instance} claims {slot} as {token} ({mode})",
            sent._replace(claims=world.claims - 1),
        )

    def _finish(self, world: World, instance: int, slot: int, token: int) -> tuple[str, World]:
        accepted, stored = self.store.finish(world, slot, token, RunState.SUCCESS)
        if not accepted:
            return f"{instance} may not end {slot}", know(world, instance, slot, Local("watch"))
        ended = promises.finished(world, stored, slot, token)
        return f"{instance} ends {slot}", know(ended, instance, slot, Local("off"))

    def _give_back(
        self, world: World, instance: int, slot: int, token: int, then: Local
    ) -> tuple[str, World]:
        accepted, stored = self.store.release(world, slot, token)
        after = promises.released(world, stored, slot, token)
        return f"{instance} releases {slot}: {accepted}", know(after, instance, slot, then)

    def _markings(
        self, world: World, instance: int, slot: int, token: int
    ) -> Iterator[tuple[str, World]]:
        accepted, stored = self.store.mark(world, slot, token)
        after = promises.written(world, stored, slot, token)
        marked = know(after, instance, slot, Local("watch"))
        yield f"{instance} marks {slot} as queued: {accepted}", marked
        if not world.faults:
            return
        # the broker's confirmation was lost, and the publisher gives up though it has the message
        unsure = world._replace(faults=world.faults - 1)
        label, left = self._give_back(unsure, instance, slot, token, Local("watch"))
        yield f"{label}, unconfirmed", left
        label, left = self._finish(unsure, instance, slot, token)
        yield f"{label} as failed, unconfirmed", left

    def _arrivals(self, world: World, request: Wire) -> Iterator[tuple[str, World]]:
        slot, instance, token = request.slot, request.instance, request.token
        outcome, started, stored = self.store.claim(world, slot, token, request.mode)
        wire = tuple(other for other in world.wire if other is not request)
        judged = promises.claimed(world, stored, request, outcome, started, self.overlap)
        after = judged._replace(wire=wire)
        label = f"store: {token} for {slot} ({request.mode}) is {outcome}"
        if world.local[instance][slot] != Local("sent", token, request.mode.value):
            yield f"{label}, and nobody waits for it", after
            return
        yield label, know(after, instance, slot, self._told(request, outcome, world.phase))
        if not world.faults:
            return
        missed = Local("unknown", token, request.mode.value)
        less = after._replace(faults=world.faults - 1)
        yield f"{label}, the answer is lost", know(less, instance, slot, missed)
        if not request.again:
            waits = world._replace(faults=world.faults - 1)
            yield f"{instance} waits no longer for {token}", know(waits, instance, slot, missed)

    def _told(self, request: Wire, outcome: Outcome, phase: int) -> Local:
        if outcome is Outcome.WON:
            return Local("publish" if self.tracked else "run", request.token)
        # it may yet be caught up by somebody else: looks go on for as long as that is allowed
        may_start = self.catch_up and request.slot == self.slots - 1
        late = phase > request.slot and not may_start
        if outcome is Outcome.DONE or (outcome in (Outcome.NONE, Outcome.LATE) and late):
            return Local("off")
        return Local("idle") if outcome is Outcome.NONE and phase < request.slot else Local("watch")


def know(world: World, instance: int, slot: int, local: Local) -> World:
    mine = put(world.local[instance], slot, local)
    return world._replace(local=put(world.local, instance, mine))


def _with_run(world: World, slot: int, kept: Kept) -> World:
    return world._replace(stored=world.stored._replace(runs=put(world.stored.runs, slot, kept)))


def _with_request(world: World, request: Wire) -> World:
    return world._replace(wire=(*world.wire, request))
