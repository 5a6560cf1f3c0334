"""How long after its slot a message is sent, with so many schedules of a minute, spread over it.

It runs from the slot to the moment at which Celery's publishing is entered. A beat has no slots:
its entries are given the times of a last run which are so spread.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from benchmarks import contestants, peers
from benchmarks.contestants import Contestant
from benchmarks.course import Course
from benchmarks.effort import Effort
from benchmarks.processes import Ended
from benchmarks.stores import Store, Stores
from benchmarks.table import Peer, Row, skipped

_SIZES, _QUICK_SIZES = (100, 1_000, 10_000, 100_000), (20,)
_OF_PEERS = 1_000
#: More instances are to change nothing; their claims go to the store too.
_FLEET, _OF_FLEETS = 3, (1_000, 10_000)
_SPREAD, _QUICK_SPREAD = 60.0, 2.0
#: What has not come by then is missing.
_GRACE = 5.0
#: Slots are whole milliseconds.
_SAME = 0.0005
_GOALS = {1_000: 0.010, 10_000: 0.050}

_fleets = count()


@dataclass(frozen=True)
class _Lags:
    contestant: Contestant
    jobs: int
    jitter: str
    lags: Sequence[float]

    @property
    def p99(self) -> float:
        return self.lags[int(len(self.lags) * 0.99)]

    @property
    def shown(self) -> str:
        median = statistics.median(self.lags)
        return " / ".join(f"{lag * 1e3:.1f} ms" for lag in (median, self.p99, self.lags[-1]))

    @property
    def missing(self) -> int:
        return self.jobs - len(self.lags)


def measure(stores: Stores, effort: Effort) -> Iterator[Row]:
    broker = stores.get(contestants.BROKER)
    if broker is None:
        yield skipped("lag", stores.why(contestants.BROKER))
        return
    course = Course(broker.url(""))
    found: list[_Lags] = []
    for jobs in effort.sizes_or(_SIZES, _QUICK_SIZES):
        theirs: list[_Lags] = []
        if not effort.quick and jobs <= _OF_PEERS:
            try:
                both = contestants.beat(), contestants.redbeat(broker.url(""))
                theirs = [_run(course, effort, peer, jobs) for peer in both]
            except (peers.NoPeers, Ended) as error:
                yield skipped(f"lag: {jobs:,}, peers", str(error))
        for result in theirs:
            yield Row(_figure(result), result.shown)
        for instances in (1, _FLEET) if jobs in _OF_FLEETS else (1,):
            for jitter in ("0s", ""):
                try:
                    result = _run(course, effort, _ours(broker, instances, jitter), jobs, jitter)
                except Ended as error:
                    yield skipped(f"lag: {jobs:,} a minute", str(error))
                    continue
                yield from _rows(result, theirs)
                found.append(result)
    yield from _growth(found)


def _ours(store: Store, instances: int, jitter: str) -> Contestant:
    options = {"jitter": jitter} if jitter else {}
    return contestants.ours(store, instances, f"lag-{next(_fleets)}", **options)


def _run(
    course: Course, effort: Effort, contestant: Contestant, jobs: int, jitter: str = ""
) -> _Lags:
    spread = effort.pick(_SPREAD, _QUICK_SPREAD)
    spec = {"entries": "spread", "jobs": jobs, "spread": spread}
    lead = effort.pick(15 + jobs / 700, 6.0)
    with course.started(contestant, spec, lead) as (running, slot):
        until = slot + spread + _GRACE
        while time.time() < until:
            running.check()
            time.sleep(0.5)
        lags: dict[int, list[float]] = {}
        for message in course.outlet.messages():
            due = slot + round(message.number * spread / jobs, 3)
            # those of the minute before and of the one after are not meant
            is_meant = message.slot is None or abs(message.slot - due) < _SAME
            if is_meant:
                lags.setdefault(message.number, []).append(message.sent - due)
    # a peer may be early, and sends again a minute later
    return _Lags(contestant, jobs, jitter, sorted(min(each, key=abs) for each in lags.values()))


def _figure(result: _Lags) -> str:
    jitter = {"": "", "0s": ", jitter 0"}[result.jitter]
    return f"lag: p50 / p99 / max, {result.jobs:,} a minute, {result.contestant.label}{jitter}"


def _rows(result: _Lags, theirs: Sequence[_Lags]) -> Iterator[Row]:
    against = [
        Peer(f"{peer.contestant.label}: p99", _millis(peer.p99), result.p99 / peer.p99)
        for peer in theirs
    ]
    goal = _GOALS.get(result.jobs) if result.jitter else None
    yield Row(
        _figure(result),
        result.shown,
        against,
        "" if goal is None else f"p99 < {_millis(goal)}",
        None if goal is None else result.p99 < goal,
    )
    yield Row(f"{_figure(result)}: missing", f"{result.missing}", (), "0", not result.missing)


def _growth(found: Sequence[_Lags]) -> Iterator[Row]:
    for jitter in ("0s", ""):
        ones = [one for one in found if one.jitter == jitter and one.contestant.instances == 1]
        if len(ones) > 1:
            small, large = ones[0], ones[-1]
            yield Row(
                f"lag: growth, p99 at {large.jobs:,}" + (", jitter 0" if jitter else ""),
                _millis(large.p99),
                [Peer(f"at {small.jobs:,}", _millis(small.p99), large.p99 / small.p99)],
            )


def _millis(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms"
