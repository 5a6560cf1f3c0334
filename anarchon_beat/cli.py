"""The entry point: answers a liveness probe before anything heavy is imported."""

from __future__ import annotations

import sys
from collections.abc import Sequence

PROGRAM = "anarchon-beat"
#: The options before the command that take a value, all of them: `health` is found among
#: the arguments without click.
VALUED = (
    "-A",
    "--app",
    "--dramatiq",
    "--store",
    "--namespace",
    "--disable",
    "-l",
    "--loglevel",
    "-f",
    "--logfile",
    "--pidfile",
    "--health-file",
    "-s",
    "--schedule",
    "--max-interval",
)


def main() -> int:
    """Do what the command line says and return the exit code."""
    try:
        return run_safely(sys.argv[1:])
    except KeyboardInterrupt:
        # as everything that takes time to import is imported inside, that is caught here too
        return 130


def run_safely(arguments: Sequence[str], program: str = PROGRAM) -> int:
    """Do what the arguments say, whatever the standard streams are, and return the exit code."""
    from anarchon_beat import streams

    streams.prepare()
    try:
        return run(arguments, program)
    finally:
        streams.flush()


def run(arguments: Sequence[str], program: str = PROGRAM) -> int:
    """Do what the arguments say and return the exit code; ``program`` is what was typed."""
    before, command, after = split(arguments)
    if command == "health" and "--help" not in before:
        from anarchon_beat import health

        return health.main(before, after)
    from anarchon_beat.commands import run as run_command

    return run_command(arguments, program)


def split(arguments: Sequence[str]) -> tuple[dict[str, str], str | None, list[str]]:
    """Return the options before the command, the command, and what stands after it."""
    before: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--" or not word.startswith("-") or word == "-":
            command = rest.pop(0) if word == "--" and rest else word
            return before, command, rest
        name, equals, value = word.partition("=")
        if not word.startswith("--"):
            # as in -Aproj
            name, equals, value = word[:2], word[2:], word[2:]
        if name in VALUED and not equals:
            value = rest.pop(0) if rest else ""
        # a schedule is known by the first module of several
        if name != "--dramatiq" or name not in before:
            before[name] = value
    return before, None, []
