"""What is missing after one of three instances died or froze: five entries, due each second.

It is done to whoever sent the newest message: the leader, where there is one. A peer's message
names no slot, so that of peers we count the seconds without a message of an entry.
"""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, pairwise

from benchmarks import contestants, peers
from benchmarks.contestants import Contestant
from benchmarks.course import Course
from benchmarks.effort import Effort
from benchmarks.outlet import Message
from benchmarks.processes import Ended
from benchmarks.stores import Stores
from benchmarks.table import Peer, Row, skipped
from benchmarks.units import in_seconds

_JOBS, _INSTANCES = 5, 3
_CALM, _QUICK_CALM = 6.0, 2.0
#: A lease of 15 s, after which two heartbeats of 5 s may pass: a run is taken over by then.
_WATCHED, _QUICK_WATCHED = 30.0, 4.0
#: Whoever is silent so long may be so for longer.
_LIMIT = 120.0
_FROZEN, _QUICK_FROZEN = 20.0, 3.0
#: Two messages of an entry that are closer than this are one too many.
_DOUBLED = 0.5
#: No slot may be silent longer than its own second and what jitter adds, whatever fails.
_GOAL = 2.0

_fleets = count()
_HARMS = {"kill -9": signal.SIGKILL, "freeze": signal.SIGSTOP}


@dataclass(frozen=True)
class _Silence:
    """What happened around a harm; ``gap`` is the longest time without a message of an entry."""

    gap: float
    recovered: bool
    lost: int
    doubled: int
    late: int

    @property
    def shown(self) -> str:
        return in_seconds(self.gap) if self.recovered else f"> {_LIMIT:.0f} s"


def measure(stores: Stores, effort: Effort) -> Iterator[Row]:
    broker = stores.get(contestants.BROKER)
    if broker is None:
        yield skipped("silence", stores.why(contestants.BROKER))
        return
    url = broker.url("")
    course = Course(url)
    entrants: list[tuple[str, Callable[[], Contestant]]] = []
    for name in effort.pick(stores.names, (contestants.BROKER,)):
        if (store := stores.get(name)) is None:
            yield skipped(f"silence: {contestants.OURS} on {name}", stores.why(name))
            continue
        entrants.append(
            (
                "",
                lambda store=store: contestants.ours(  # type: ignore[misc]
                    store, _INSTANCES, f"silence-{next(_fleets)}"
                ),
            )
        )
    if not effort.quick:
        entrants += _peers(url)
    for harm in _HARMS:
        for settings, make in entrants:
            try:
                contestant = make()
                found = _run(course, effort, contestant, harm)
            except (peers.NoPeers, Ended) as error:
                yield skipped(f"silence: {harm}", str(error))
                continue
            yield _row(contestant, settings, harm, found)


def _peers(url: str) -> list[tuple[str, Callable[[], Contestant]]]:
    return [
        ("defaults", lambda: contestants.redbeat(url, _INSTANCES)),
        (
            "tightest",
            lambda: contestants.redbeat(
                url, _INSTANCES, beat_max_loop_interval=1, redbeat_lock_timeout=2
            ),
        ),
        ("defaults", lambda: contestants.multibeat(url, _INSTANCES)),
        (
            "tightest",
            lambda: contestants.multibeat(
                url,
                _INSTANCES,
                beat_max_loop_interval=1,
                multibeat_lock_timeout=2,
                multibeat_min_refresh_seconds=0.5,
                multibeat_min_standby_seconds=0.5,
            ),
        ),
    ]


def _run(course: Course, effort: Effort, contestant: Contestant, harm: str) -> _Silence:
    spec = {"entries": "seconds", "jobs": _JOBS}
    outlet = course.outlet
    with course.started(contestant, spec, effort.pick(15.0, 6.0)) as (running, slot):
        time.sleep(max(0.0, slot + effort.pick(_CALM, _QUICK_CALM) - time.time()))
        newest = outlet.newest()
        if newest is None:
            raise Ended(f"{contestant.label} sent nothing before it was harmed")
        victim = running.of(newest.sender)
        harmed = time.time()
        running.signal(victim, _HARMS[harm])
        thawed = harm != "freeze"
        until = harmed + effort.pick(_WATCHED, _QUICK_WATCHED)
        frozen = harmed + effort.pick(_FROZEN, _QUICK_FROZEN)
        while time.time() < until or (not _is_back(outlet.newest(), newest, harmed)):
            if not thawed and time.time() > frozen:
                running.signal(victim, signal.SIGCONT)
                thawed = True
                until = max(until, time.time() + effort.pick(10.0, 2.0))
            if time.time() > harmed + _LIMIT:
                break
            time.sleep(0.2)
        ended = time.time() - 1
        messages = list(outlet.messages())
    return _judge(messages, slot, harmed, ended)


def _is_back(latest: Message | None, before: Message, harmed: float) -> bool:
    return latest is not None and latest.sent > max(before.sent, harmed + 1)


def _judge(messages: Sequence[Message], began: float, harmed: float, ended: float) -> _Silence:
    gap, lost, doubled, late = 0.0, 0, 0, 0
    for number in range(_JOBS):
        own = [one for one in messages if one.number == number]
        sent = sorted(one.sent for one in own if began <= one.sent <= ended)
        gap = max([gap, *(later - one for one, later in pairwise([*sent, ended]))])
        if own and own[0].slot is not None:
            counts = Counter(one.slot for one in own)
            slots = [float(second) for second in range(int(began), int(ended - 1))]
            lost += sum(slot not in counts for slot in slots)
            doubled += sum(times - 1 for times in counts.values())
            late += sum(one.sent - (one.slot or 0) > 1.0 for one in own)
        else:
            lost += max(0, int(ended - 1) - int(began) - len(sent))
            doubled += sum(later - one < _DOUBLED for one, later in pairwise(sent))
    recovered = any(one.sent > harmed + 1 for one in messages)
    return _Silence(gap, recovered, lost, doubled, late)


def _row(contestant: Contestant, settings: str, harm: str, found: _Silence) -> Row:
    is_ours = contestant.name.startswith(contestants.OURS)
    figure = f"silence: {harm}, {contestant.label}" + (f", {settings}" if settings else "")
    counts = [Peer("lost, doubled", f"{found.lost}, {found.doubled}")]
    if not is_ours:
        return Row(figure, f"longest gap {found.shown}", counts)
    return Row(
        figure,
        f"longest gap {found.shown}",
        [Peer("lost, doubled, late by more than 1 s", f"{counts[0].measured}, {found.late}")],
        f"< {_GOAL:.0f} s; 0 lost",
        found.gap < _GOAL and not found.lost,
    )
