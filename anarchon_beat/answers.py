"""What to type here instead, told to those who type what `celery beat` takes."""

from __future__ import annotations

import click

TO_BEAT = "leave `beat` out: anarchon-beat runs the schedule when there is no command"

#: Why two options of `celery beat` are taken and do nothing.
NO_FILE = "there is no schedule file, what ran is in the store (--store)"
NO_INTERVAL = "the loop wakes when a slot is due"

_NO_CLASS = (
    "leave it out: the entries of beat_schedule are run, and the store decides who sends each;"
    " entries that another scheduler keeps in a database are not read"
)
_NO_CONTROL = "leave it out: `anarchon-beat health` says whether it lives"
_AS_USER = "let what starts it choose the user: systemd's User= and Group=, runAsUser, sudo -u"
_LESS_COLOUR = "set worker_log_color = False in the project, or log to a file"

#: Every option of `celery beat`, and of `celery` before it, that is not ours.
INSTEAD = {
    "-S": _NO_CLASS,
    "--scheduler": _NO_CLASS,
    "--detach": "leave it out: let systemd or a container run it in the background",
    "--enable-remote-control": _NO_CONTROL,
    "--no-enable-remote-control": _NO_CONTROL,
    "-n": "leave it out: every instance names itself",
    "--hostname": "leave it out: every instance names itself",
    "--uid": _AS_USER,
    "--gid": _AS_USER,
    "--umask": "set it where it is started: umask 027, or systemd's UMask=",
    "--executable": "leave it out: nothing is started anew",
    "-b": "set broker_url in the project, or CELERY_BROKER_URL in the environment",
    "--broker": "set broker_url in the project, or CELERY_BROKER_URL in the environment",
    "--result-backend": "set result_backend, or CELERY_RESULT_BACKEND in the environment",
    "--loader": "set CELERY_LOADER in the environment",
    "--config": "set CELERY_CONFIG_MODULE in the environment",
    "--workdir": "change to the folder before: cd FOLDER && anarchon-beat ...",
    "-C": _LESS_COLOUR,
    "--no-color": _LESS_COLOUR,
    "-q": "send its standard output to /dev/null; -l error logs less",
    "--quiet": "send its standard output to /dev/null; -l error logs less",
    "--skip-checks": "set CELERY_SKIP_CHECKS=true in the environment",
}
_OF_OTHER_COMMANDS = {
    ("next", "--limit"): "type -n",
    ("history", "-n"): "type --limit",
}


def to_option(error: click.NoSuchOption) -> str:
    """Say what to do about an option that is not there."""
    option, context = error.option_name, error.ctx
    command = context.info_name or "" if context is not None and context.parent else ""
    if context is not None and context.parent is not None and _takes(context.parent, option):
        return f"{option} stands before the command: anarchon-beat {option} ... {command}"
    there = f"`{command}`" if command else "anarchon-beat"
    instead = _OF_OTHER_COMMANDS.get((command, option)) or INSTEAD.get(option)
    if instead is None:
        return error.format_message()
    return f"{there} has no option {option}: {instead}"


def _takes(context: click.Context, option: str) -> bool:
    return any(option in (*one.opts, *one.secondary_opts) for one in context.command.params)
