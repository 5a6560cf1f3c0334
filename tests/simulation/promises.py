"""What must hold in every state of the searched world, judged by what happened in it.

Nothing here asks the rules what they mean by busy, by a former token, or by an attempt: a
wrong rule would answer for itself.
"""

from __future__ import annotations

from anarchon.run import Overlap, RunState
from anarchon.store import Mode, Outcome
from tests.simulation.store_model import Store
from tests.simulation.world import Delivery, Message, Stored, Wire, World, put


def claimed(
    world: World, stored: Stored, request: Wire, outcome: Outcome, started: bool, overlap: Overlap
) -> World:
    """Note a claim's answer, and what it broke."""
    slot, token = request.slot, request.token
    after = world._replace(stored=stored)
    broken = world.broken
    others = [kept for n, kept in enumerate(world.stored.runs) if n != slot and kept is not None]
    one_is_busy = any(other.is_busy for other in others)
    kept, now = world.stored.runs[slot], stored.runs[slot]
    if outcome is Outcome.OVERLAP and not one_is_busy:
        broken = "G9: held back though no other run is busy"
    if kept is not None and kept.is_overdue and (now is None or now.is_unfinished):
        broken = "G12: past its start deadline, met by a claim, and not ended"
    if outcome is Outcome.WON:
        if world.over[slot]:
            broken = "G2: a finished slot was won again"
        elif started and one_is_busy and overlap is Overlap.SKIP:
            broken = "G3: won while another run was busy"
        elif started and token in world.granted:
            broken = "G4: a token won a second attempt"
        elif started and request.mode is not Mode.TAKEOVER and kept and kept.is_unfinished:
            broken = "G1: a first claim started a second attempt"
        elif started and now is not None and now.startable is False:
            broken = "G12: an attempt that cannot begin was started"
        after = after._replace(
            owner=put(world.owner, slot, token),
            granted=tuple({*world.granted, token}),
        )
        if started:
            after = after._replace(runner=put(world.runner, slot, None))
    return after._replace(broken=broken)


def written(world: World, stored: Stored, slot: int, token: int, nonce: int | None = None) -> World:
    """Note a write under a token, and of a delivery if it has begun, that changed something."""
    after = world._replace(stored=stored)
    if stored == world.stored:
        return after
    if world.owner[slot] != token:
        return after._replace(broken="G4: a former token wrote")
    if world.runner[slot] != nonce:
        return after._replace(broken="G4: somebody wrote for the delivery that runs it")
    return after


def released(world: World, stored: Stored, slot: int, token: int) -> World:
    """Note a release; the token is a former one from then on."""
    after = written(world, stored, slot, token)
    if stored == world.stored:
        return after
    return after._replace(owner=put(world.owner, slot, None))


def finished(
    world: World, stored: Stored, slot: int, token: int, nonce: int | None = None
) -> World:
    """Note an end that was accepted."""
    after = written(world, stored, slot, token, nonce)
    if stored == world.stored:
        return after  # asked again
    broken = "G2: a slot finished twice" if world.over[slot] else after.broken
    return after._replace(over=put(world.over, slot, True), broken=broken)


def begun(world: World, stored: Stored, slot: int, token: int, nonce: int) -> World:
    """Note that a delivery may start its work."""
    broken, kept = world.broken, world.stored.runs[slot]
    if world.over[slot]:
        broken = "G2: a finished slot was begun"
    elif kept is not None and kept.startable is False:
        broken = "G12: begun after its start deadline"
    elif world.owner[slot] != token:
        broken = "G4: a former token began"
    return world._replace(stored=stored, runner=put(world.runner, slot, nonce), broken=broken)


def started(world: World, token: int, retry: int) -> World:
    """Note that a delivery's work starts."""
    if (token, retry) in world.starts:
        return world._replace(broken="G12: an attempt started twice for one retry")
    return world._replace(starts=(*world.starts, (token, retry)))


def broken(world: World, overlap: Overlap, store: Store) -> str | None:
    """Return which promise this state breaks."""
    runs = [kept for kept in world.stored.runs if kept is not None]
    if overlap is Overlap.SKIP:
        if sum(kept.is_busy for kept in runs) > 1:
            return "G3: two runs of a job are busy"
        if sum(kept.is_unfinished for kept in runs) > 1:
            return "G3: two runs of a job are unfinished"
    return _held_twice(world, store) or _lost_in_the_broker(world) or _unwatched(world)


def _held_twice(world: World, store: Store) -> str | None:
    """Name a slot that two would be told they hold."""
    for slot, kept in enumerate(world.stored.runs):
        if kept is None or not kept.is_unfinished:
            continue
        holders: set[tuple[int, int | None]] = {(t, None) for t in _tokens_of(world, slot)}
        holders |= {(d.token, d.nonce) for d in world.deliveries if d.slot == slot}
        heard = [who for who in holders if store.renew(world, slot, *who)[0]]
        if len(heard) > 1:
            return f"G1: two hold slot {slot}"
        if heard and heard[0] != (world.owner[slot], world.runner[slot]):
            return f"G4: a former holder of slot {slot} renews"
    return None


def _tokens_of(world: World, slot: int) -> set[int]:
    known = (mine[slot] for mine in world.local if mine[slot].knows != "sent")
    return {local.token for local in known if local.token is not None}


def _lost_in_the_broker(world: World) -> str | None:
    for slot, kept in enumerate(world.stored.runs):
        if kept is None or kept.state is not RunState.QUEUED:
            continue
        at_work = {d.nonce for d in world.deliveries if d.stage == "body"}
        if world.runner[slot] is not None and world.runner[slot] in at_work:
            return f"slot {slot} is at work and its run says queued"
        at_worker = (d for d in world.deliveries if d.stage in ("begin", "asked"))
        coming: list[Message | Delivery] = [*world.messages, *at_worker]
        if world.lost_message or not kept.startable:
            continue
        if not any(m.token == kept.token and m.retry >= kept.retry for m in coming):
            return f"slot {slot} says queued and no message of it is left"
    return None


def _unwatched(world: World) -> str | None:
    """Name a run that has not ended, and that nobody living holds or watches at rest."""
    living = [mine for mine, up in zip(world.local, world.up, strict=True) if up == "up"]
    at_rest = not world.wire and world.phase == len(world.over) and "frozen" not in world.up
    if not living or not at_rest or not world.claims:
        return None
    for slot, kept in enumerate(world.stored.runs):
        if kept is None or not kept.is_unfinished or kept.leased:
            continue
        if all(mine[slot].knows == "off" for mine in living):
            return f"G6: nobody watches slot {slot}"
    return None
