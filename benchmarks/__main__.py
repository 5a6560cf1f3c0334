"""`python -m benchmarks [NAME...]`: measures, and prints one table."""

import argparse
import sys
import time
from collections.abc import Callable, Iterable

from benchmarks import (
    burst,
    claims,
    cost,
    cron,
    idle,
    lag,
    machine,
    peers,
    silence,
    simulation,
    start,
    takeover,
    trips,
)
from benchmarks.effort import Effort
from benchmarks.stores import Stores
from benchmarks.table import Row, render

Figure = Callable[[Stores, Effort], Iterable[Row]]


def _always_whole(measure: Callable[[Stores], Iterable[Row]]) -> Figure:
    """Return a figure that has no quick form."""
    return lambda stores, _: measure(stores)


FIGURES: dict[str, Figure] = {
    "cron": _always_whole(cron.measure),
    "start": start.measure,
    "idle": idle.measure,
    "claims": _always_whole(claims.measure),
    "trips": _always_whole(trips.measure),
    "takeover": _always_whole(takeover.measure),
    "simulation": _always_whole(simulation.measure),
    "burst": burst.measure,
    "lag": lag.measure,
    "cost": cost.measure,
    "silence": silence.measure,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(FIGURES)}")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="see whether it works: small numbers, no peers; the figures say nothing",
    )
    parser.add_argument(
        "--sizes",
        type=lambda text: [int(size) for size in text.split(",")],
        default=[],
        metavar="N,N",
        help="numbers of schedules to measure, instead of each figure's own",
    )
    options = parser.parse_args()
    effort = Effort(options.quick, options.sizes)
    names = options.names or list(FIGURES)
    for name in names:
        if name not in FIGURES:
            parser.error(f"there is no figure {name!r}; there are {', '.join(FIGURES)}")
    with Stores() as stores:
        # before anything runs: how busy others keep the machine
        facts = machine.facts(stores)
        rows: list[Row] = []
        for name in names:
            began = time.monotonic()
            print(f"{name} ...", end="", file=sys.stderr, flush=True)
            rows += FIGURES[name](stores, effort)
            print(f" {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    if not effort.quick:
        facts.insert(3, f"peers     {peers.versions()}")
    print("\n".join(facts), end="\n\n")
    print(render(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
