"""`python -m tests.servers fetch [NAME...]`: fetches servers before tests need them."""

import argparse
import sys
import time

from tests.servers.catalog import CATALOG
from tests.servers.errors import Unavailable
from tests.servers.fetch import fetch
from tests.servers.pool import required_names


def main() -> int:
    """Fetch; fail only for what `ANARCHON_REQUIRE_BACKENDS` or the command line names."""
    parser = argparse.ArgumentParser(prog="python -m tests.servers", description=__doc__)
    parser.add_argument("command", choices=["fetch"])
    parser.add_argument("names", nargs="*", choices=[[], *CATALOG], metavar="NAME")
    arguments = parser.parse_args()
    required = required_names() | set(arguments.names)
    failed = False
    for name in arguments.names or CATALOG:
        began = time.monotonic()
        try:
            fetch(name)
        except Unavailable as error:
            print(f"{name}: cannot be had: {error}", file=sys.stderr, flush=True)
            failed |= name in required
        else:
            print(f"{name}: ready ({time.monotonic() - began:.1f} s)", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
