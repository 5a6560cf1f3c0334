"""Names for a world's tokens, deliveries and instances that say only what part they have in it.

Two worlds that differ in nothing but who is called what get one key, and the search goes on
from one of them. What nobody can ask with any more gets no name: it makes no difference.
"""

from __future__ import annotations

from collections.abc import Hashable
from operator import itemgetter
from typing import Any

from tests.simulation.world import World

_UNNAMED = 99


class _Names(dict[int | None, int]):
    """Numbers in the order in which they are asked for; ``None`` is nobody's."""

    def __init__(self) -> None:
        self[None] = -1

    def __missing__(self, old: int | None) -> int:
        self[old] = name = len(self)
        return name

    def known(self, old: int | None) -> int:
        return self.get(old, _UNNAMED)


def key_of(world: World, *, alike: bool = True) -> Hashable:
    """Return what makes a world different; ``alike`` if no instance differs from another."""
    tokens, nonces = _Names(), _Names()
    asking = world.asking_tokens()
    return (
        _runs(world, tokens, nonces, asking),
        _at_broker(world, tokens, nonces),
        _instances(world, tokens, alike),
        world.phase,
        world.stored.floor,
        world.faults,
        world.claims,
        world.lost_message,
        world.over,
        tuple([tokens.known(token) for token in world.owner]),
        tuple(sorted([tokens[token] for token in world.granted if token in asking])),
        tuple([nonces.known(nonce) for nonce in world.runner]),
        tuple(sorted([(tokens[token], retry) for token, retry in world.starts if token in asking])),
        world.broken,
    )


def _runs(world: World, tokens: _Names, nonces: _Names, asking: set[int | None]) -> Hashable:
    runs: list[Hashable] = []
    for kept in world.stored.runs:
        if kept is None:
            runs.append(None)
            continue
        matters = kept.token in asking or not kept.state.has_ended
        token = tokens[kept.token] if matters else _UNNAMED
        spent = tuple([(tokens[old], lapsed) for old, lapsed in kept.spent if old in asking])
        runs.append((token, spent, nonces[kept.nonce], *kept[:2], kept.leased, *kept[5:7]))
    return tuple(runs)


def _at_broker(world: World, tokens: _Names, nonces: _Names) -> Hashable:
    if not (world.messages or world.deliveries or world.echoes):
        return ()
    messages = sorted([(m.slot, m.retry, tokens.known(m.token), m.token) for m in world.messages])
    named: list[Any] = [[(slot, retry, tokens[token]) for slot, retry, _, token in messages]]
    for part in (world.deliveries, world.echoes):
        at_work = [(tokens.known(d.token), nonces.known(d.nonce), d) for d in part]
        at_work.sort()
        named.append([(*d[:3], tokens[d.token], nonces[d.nonce]) for _, _, d in at_work])
    return tuple([tuple(sorted(part)) for part in named])


def _instances(world: World, tokens: _Names, alike: bool) -> Hashable:
    sent: list[list[Any]] = [[] for _ in world.up]
    for request in world.wire:
        sent[request.instance].append((tokens.known(request.token), *request[1:]))
    instances: list[Any] = []
    for up, local, claims in zip(world.up, world.local, sent, strict=True):
        known = [(tokens.known(mine.token), mine.knows, mine.mode) for mine in local]
        instances.append((up, known, sorted(claims), local))
    if alike:
        instances.sort(key=itemgetter(0, 1, 2))
    named = []
    for up, _, claims, local in instances:
        knows = tuple([(mine.knows, tokens[mine.token], mine.mode) for mine in local])
        named.append((up, knows, tuple(sorted([(*c[1:4], tokens[c[4]]) for c in claims]))))
    return tuple(named)
