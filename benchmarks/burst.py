"""How long after their minute the messages of entries that are all due in it reach a broker.

It is measured from the slot to the arrival of the last message. The limit is the same messages,
published flat out by as many processes. Nobody works on them, and all start with an empty
Redis; jitter is what anarchon has by default.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from benchmarks import contestants, peers
from benchmarks.bursts import Bursts, Entrant, Result
from benchmarks.contestants import Contestant
from benchmarks.effort import Effort
from benchmarks.processes import Ended
from benchmarks.stores import Store, Stores
from benchmarks.table import Peer, Row, skipped
from benchmarks.units import micros

_SIZES, _QUICK_SIZES = (1_000, 3_000, 10_000), (20,)
_INSTANCES, _QUICK_INSTANCES = (1, 2, 3), (1, 2)
#: At the largest size, with all instances, on the broker's Redis.
_GOALS = {"flat out": 1.5, contestants.BEAT: 1 / 20, contestants.REDBEAT: 1 / 5}

_fleets = count()


def measure(stores: Stores, effort: Effort) -> Iterator[Row]:
    broker = stores.get(contestants.BROKER)
    if broker is None:
        yield skipped("burst", stores.why(contestants.BROKER))
        return
    bursts = Bursts(broker.url(""), effort)
    ours: list[Entrant] = []
    instances = effort.pick(_INSTANCES, _QUICK_INSTANCES)
    for name in effort.pick(stores.names, (contestants.BROKER,)):
        store = stores.get(name)
        if store is None:
            yield skipped(f"burst: {contestants.OURS} on {name}", stores.why(name))
        else:
            ours += [_ours(store, number) for number in instances]
    theirs: list[Entrant] = []
    if not effort.quick:
        try:
            theirs = _peers(stores, broker.url(""))
        except peers.NoPeers as error:
            yield skipped("burst: peers", str(error))
    everything: list[Result] = []
    for jobs in effort.sizes_or(_SIZES, _QUICK_SIZES):
        found = [bursts.flat_out(jobs, number) for number in instances]
        for entrant in (*theirs, *ours):
            try:
                found.append(bursts.measure(entrant, jobs))
            except Ended as error:
                yield skipped(f"burst: {jobs:,} at once", str(error))
        yield from _rows(found, is_goal=jobs == _SIZES[-1])
        everything += found
    yield from _growth(everything)


def _ours(store: Store, instances: int) -> Entrant:
    # a fleet of its own each time: nothing of an earlier burst is known to its store
    return lambda: contestants.ours(store, instances, f"burst-{next(_fleets)}")


def _peers(stores: Stores, broker: str) -> list[Entrant]:
    found: list[Contestant] = [contestants.beat(), contestants.redbeat(broker)]
    if (django := contestants.django(stores)) is not None:
        found.append(django)
    return [lambda contestant=contestant: contestant for contestant in found]  # type: ignore[misc]


def _rows(found: list[Result], *, is_goal: bool) -> Iterator[Row]:
    limits = {result.instances: result for result in found if result.name == "flat out"}
    theirs = [one for one in found if _is_a_peer(one)]
    for result in found:
        peers_of_it = []
        if result.name != "flat out":
            peers_of_it.append(limits[result.instances])
        is_ours = result.name.startswith(contestants.OURS)
        if is_ours:
            peers_of_it += theirs
        best = result.name.endswith(contestants.BROKER) and result.instances == max(limits)
        goals = _GOALS if is_goal and is_ours and best else {}
        yield _row(result, peers_of_it, goals)
        if is_ours:
            yield _exactly_once(result)


def _is_a_peer(result: Result) -> bool:
    return result.name != "flat out" and not result.name.startswith(contestants.OURS)


def _figure(result: Result) -> str:
    return f"burst: {result.jobs:,} at once, {result.label}"


def _row(result: Result, others: list[Result], goals: dict[str, float]) -> Row:
    against = [Peer(one.label, one.shown, result.median / one.median) for one in others]
    met = [result.median / one.median <= goals[one.name] for one in others if one.name in goals]
    goal = ", ".join(f"≤ {most:g} × {name}" for name, most in goals.items())
    return Row(_figure(result), result.shown, against, goal, all(met) if met else None)


def _exactly_once(result: Result) -> Row:
    counts = (result.doubled, result.lost, result.again)
    return Row(
        f"{_figure(result)}: doubled, lost, taken over",
        ", ".join(map(str, counts)),
        goal="0, 0, 0",
        met=not any(counts),
    )


def _growth(everything: list[Result]) -> Iterator[Row]:
    """Show what a message costs at the largest size, beside what it does at the smallest."""
    for label in dict.fromkeys(result.label for result in everything):
        found = [result for result in everything if result.label == label and result.finished]
        if len(found) > 1:
            small, large = found[0], found[-1]
            yield Row(
                f"burst: growth, a message of {large.jobs:,}, {label}",
                micros(large.each),
                [Peer(f"of {small.jobs:,}", micros(small.each), large.each / small.each)],
            )
