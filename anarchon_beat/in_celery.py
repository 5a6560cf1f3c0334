"""What `celery` finds of us: the command `celery -A proj anarchon ...`, and a project's settings.

Every `celery` command imports this; so it imports next to nothing.
"""

from __future__ import annotations

from typing import Any

import click
from celery.signals import celeryd_init

from anarchon_beat import cli

PROGRAM = "celery anarchon"


@click.command(
    "anarchon",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def anarchon(context: click.Context, /, arguments: tuple[str, ...], **_: object) -> None:
    """Run the schedule with every other instance, or say what ran (anarchon-beat)."""
    before = cli.split(arguments)[0]
    if not before.keys().isdisjoint(("-A", "--app")):
        raise click.UsageError("-A stands before the command: celery -A APP anarchon ...")
    name = context.parent.params.get("app") if context.parent is not None else None
    named = ("-A", name) if isinstance(name, str) else ()
    context.exit(cli.run_safely((*named, *arguments), PROGRAM))


@celeryd_init.connect(weak=False, dispatch_uid="anarchon-by-settings")
def install_by_settings(instance: Any, **_: object) -> None:
    """Make ours a worker whose settings ask for it, before it is put together."""
    from anarchon import ConfigurationError
    from anarchon_celery import install
    from anarchon_celery.settings import flag

    try:
        if flag(instance.app, "anarchon_embedded") or flag(instance.app, "anarchon_track"):
            install(instance.app)
    except ConfigurationError as error:
        raise SystemExit(str(error)) from error
