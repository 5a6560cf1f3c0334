"""`anarchon-beat health`: does a daemon here live, and is it ready?

Standard library only, and never the store: an outage of it must not restart every pod.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

from anarchon_beat import pulse, streams
from anarchon_beat.pulse import LONGEST_SILENCE, Pulse

_ABOUT = """\
Exit with 0 while the loop of the running anarchon-beat woke within the last two minutes,
with 1 otherwise. Looks at the daemons that the same user started on this machine; -A,
--pidfile and --health-file pick among them, and every one that is left must be healthy.
Never asks the store.
"""


def main(before: Mapping[str, str], after: Sequence[str]) -> int:
    """Say whether the daemons here are healthy, and return the exit code.

    ``before`` are the options that stood before the command.
    """
    asked = _parse(after)
    app = asked.app or before.get("-A") or before.get("--app") or before.get("--dramatiq")
    pidfile = asked.pidfile or before.get("--pidfile")
    health_file = asked.health_file or before.get("--health-file")
    found, absent = _find(app, pidfile, health_file)
    if not found:
        return _answer(1, f"not healthy: {absent}")
    sick = [told for one in found if (told := complaint(one, ready=asked.ready)) is not None]
    return _answer(1 if sick else 0, *(sick or [_praise(one) for one in found]))


def _answer(code: int, *lines: str) -> int:
    # the code is the answer: nobody restarts a daemon because a disk is full
    try:
        streams.say("\n".join(lines))
    except streams.OutputLost:
        streams.give_up()
    return code


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        print(f"anarchon-beat: {message}", file=sys.stderr)
        raise SystemExit(2)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(
        "anarchon-beat health",
        description=_ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--ready", action="store_true", help="ask also: is the schedule loaded, the store there?"
    )
    parser.add_argument("-A", "--app", help="only daemons of this app, written as it was there")
    parser.add_argument("--pidfile", help="only the daemon with this pidfile")
    parser.add_argument("--health-file", help="only the daemon that was given this file")
    return parser.parse_args(arguments)


def _find(app: str | None, pidfile: str | None, health_file: str | None) -> tuple[list[Pulse], str]:
    """Return the daemons that were asked for, or why there are none."""
    if health_file is not None:
        found = [one for one in [pulse.read(health_file)] if one is not None]
        absent = f"{health_file} is not there, or not a health file"
    elif pidfile is not None:
        pid = _pid_in(pidfile)
        found = [one for one in [pulse.read(pulse.path_of(pid))] if one is not None]
        absent = f"no anarchon-beat runs with the pidfile {pidfile}"
    else:
        found = list(pulse.read_all())
        absent = "no anarchon-beat of this user runs here"
    living = [one for one in found if pulse.is_alive(one)]
    if found and not living:
        absent = f"anarchon-beat has ended (pid {', '.join(str(one['pid']) for one in found)})"
    if app is None:
        return living, absent
    named = [one for one in living if one["app"] == app]
    return named, f"no anarchon-beat -A {app} runs here" if living else absent


def _pid_in(path: str) -> int:
    try:
        with open(path) as file:
            return int(file.readline())
    except (OSError, ValueError):
        return 0


def complaint(one: Pulse, *, ready: bool) -> str | None:
    """Return what is wrong with a daemon, ``None`` if it is well."""
    silent = pulse.now() - one["woken"]
    if silent > LONGEST_SILENCE:
        return f"not healthy: {_named(one)} has not woken for {silent:.0f} s"
    if ready and one["state"] != "running":
        return f"not ready: {_named(one)} is {one['state']}"
    if ready and not one["ready"]:
        return f"not ready: {_named(one)} waits for the store"
    return None


def _praise(one: Pulse) -> str:
    state = "ready" if one["ready"] else one["state"]
    silent = max(0.0, pulse.now() - one["woken"])
    return f"healthy: {_named(one)} woke {silent:.0f} s ago, {state}"


def _named(one: Pulse) -> str:
    return f"-A {one['app']} (pid {one['pid']})"
