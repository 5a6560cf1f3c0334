"""`python -m benchmarks [NAME...]`: measures, and prints one table."""

import argparse
import sys
import time
from collections.abc import Callable, Iterable

from benchmarks import claims, cron, idle, machine, start, takeover, trips
from benchmarks.stores import Stores
from benchmarks.table import Row, render

FIGURES: dict[str, Callable[[Stores], Iterable[Row]]] = {
    "cron": cron.measure,
    "start": start.measure,
    "idle": idle.measure,
    "claims": claims.measure,
    "trips": trips.measure,
    "takeover": takeover.measure,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(FIGURES)}")
    names = parser.parse_args().names or list(FIGURES)
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
            rows += FIGURES[name](stores)
            print(f" {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    print("\n".join(facts), end="\n\n")
    print(render(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
