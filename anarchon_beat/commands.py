"""The options and commands of `anarchon-beat`, read by click."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import click

from anarchon import AnarchonError
from anarchon_beat import answers, streams
from anarchon_beat import health as health_command
from anarchon_beat.cli import PROGRAM
from anarchon_beat.config import Loaded, Settings, load
from anarchon_beat.logs import Level
from anarchon_beat.mistakes import INTERRUPTED, USAGE, Mistake, code_of, one_line


def run(arguments: Sequence[str], program: str) -> int:
    """Do what the arguments say; a mistake is told in one line. Return the exit code."""
    try:
        code = anarchon_beat.main(list(arguments), prog_name=program, standalone_mode=False)
    except click.NoSuchOption as error:
        return _tell(program, answers.to_option(error), USAGE)
    except click.ClickException as error:
        told = error.code if isinstance(error, Mistake) else USAGE
        return _tell(program, error.format_message(), told)
    except AnarchonError as error:
        return _tell(program, str(error), code_of(error))
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except streams.OutputLost as lost:
        streams.give_up()
        if isinstance(lost.reason, BrokenPipeError):
            # whoever reads has seen enough
            return 0
        return _tell(program, f"standard output: {lost.reason.strerror}", USAGE)
    return code if isinstance(code, int) else 0


def _tell(program: str, message: str, code: int) -> int:
    print(f"{program}: {one_line(message)}", file=sys.stderr)
    return code


class _Command(click.Command):
    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        # this prints the help, and click would take a reader who left for a failure
        try:
            return super().make_context(*args, **kwargs)
        except OSError as error:
            raise streams.OutputLost(error) from None


class _Commands(_Command, click.Group):
    command_class = _Command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] == "beat":
            raise Mistake(answers.TO_BEAT)
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Commands, invoke_without_command=True, context_settings={"max_content_width": 100}
)
@click.option("-A", "--app", metavar="APP", help="A Celery app, or a Scheduler as module:name.")
@click.option(
    "--dramatiq",
    metavar="NAME",
    multiple=True,
    help="A module or module:broker, as dramatiq takes it; more modules may follow.",
)
@click.option(
    "--store",
    metavar="URL",
    help="Where instances meet; else the app's anarchon_store, its Redis, or a SQLite file.",
)
@click.option(
    "--namespace",
    metavar="NAME",
    help="Who shares slots with us; else anarchon_namespace, or the name of the Celery app.",
)
@click.option(
    "-l", "--loglevel", metavar="LEVEL", type=Level(), default="WARNING", show_default=True
)
@click.option("-f", "--logfile", metavar="FILE", help="Log there instead of on standard error.")
@click.option("--log-json", is_flag=True, help="Log one JSON object a line.")
@click.option("--pidfile", metavar="FILE", help="Run once at a time; no pidfile by default.")
@click.option("--health-file", metavar="FILE", help="The file that `health` looks at.")
@click.option(
    "--disable", metavar="NAME", multiple=True, help="Leave an entry out; may be repeated."
)
@click.option(
    "--ignore-beat-scheduler",
    is_flag=True,
    help="Run beat_schedule although a beat_scheduler keeps its entries elsewhere.",
)
@click.option("-s", "--schedule", hidden=True)
@click.option("--max-interval", type=int, hidden=True)
@click.version_option(version("anarchon"), prog_name=PROGRAM, message="%(prog)s %(version)s")
@click.pass_context
def anarchon_beat(context: click.Context, /, **options: Any) -> int | None:
    """Run a schedule together with every other instance of it.

    All instances are equal; the store decides who runs each slot. Without a command: run.
    """
    context.obj = Settings(**options)
    if context.invoked_subcommand is None:
        return _run(context.obj)
    return None


@anarchon_beat.command("run")
@click.pass_obj
def run_command(settings: Settings) -> int:
    """Run until SIGTERM or SIGINT, then hand over."""
    return _run(settings)


def _run(settings: Settings) -> int:
    from anarchon_beat import daemon

    return daemon.run(settings)


@anarchon_beat.command(
    "health",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True},
    help="Exit with 0 if the daemon here is alive; with --ready, if it is ready.",
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def health(arguments: tuple[str, ...]) -> int:
    """Hand over, for callers that did not come through the entry point."""
    return health_command.main({}, arguments)


@anarchon_beat.command("next")
@click.option("-n", "count", type=click.IntRange(min=1), default=5, show_default=True)
@click.option("--job", "jobs", metavar="NAME", multiple=True, help="Only this job; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def next_slots(settings: Settings, count: int, jobs: tuple[str, ...], as_json: bool) -> None:
    """Show the next slots. Asks no store."""
    from anarchon_beat import next

    next.show(_quietly_loaded(settings).scheduler, jobs, count, as_json=as_json)


@anarchon_beat.command("history")
@click.option("--job", "jobs", metavar="NAME", multiple=True, help="Only this job; repeatable.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def history(settings: Settings, jobs: tuple[str, ...], limit: int, as_json: bool) -> None:
    """Show who ran what, newest slot first."""
    from anarchon_beat import history

    history.show(_quietly_loaded(settings), jobs, limit, as_json=as_json)


@anarchon_beat.command("check")
@click.option("--offline", is_flag=True, help="Ask neither the store, nor broker and workers.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def check(settings: Settings, offline: bool, as_json: bool) -> int:
    """Say all that is wrong, and what differs from celery beat; starts and changes nothing.

    Exits with 0 if nothing is wrong; notes are no reason for another code.
    """
    from anarchon_beat import check

    return check.show(settings, offline=offline, as_json=as_json)


@anarchon_beat.command("demo")
def demo() -> int:
    """Show three processes sharing a schedule while two of them fail; no server needed."""
    from anarchon_beat import demo

    return demo.run()


def _quietly_loaded(settings: Settings) -> Loaded:
    # a store that is away is told in one line, at the end
    logging.getLogger("anarchon.store").addHandler(logging.NullHandler())
    logging.getLogger("anarchon.store").propagate = False
    return load(settings)
