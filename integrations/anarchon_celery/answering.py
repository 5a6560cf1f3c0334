"""What running workers say of themselves: the tasks they know, and whether they follow runs.

Asked by Celery's own `inspect registered`, which tells any attribute of a task. So a worker
without our integration is asked as well, and logs no error about a command it does not know.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from celery import Celery
from kombu import Connection

ATTRIBUTE = "anarchon"
#: A task that every app has, and nobody lists.
_CARRIER = "celery.backend_cleanup"
#: How long each further answer is waited for, in seconds.
_PATIENCE = 2.0


@dataclass(frozen=True, slots=True)
class Following:
    """Where a worker follows tracked runs; the store as it may be shown."""

    store: str
    namespace: str


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker that answered; ``following`` is ``None`` if it has no integration of ours."""

    name: str
    tasks: frozenset[str]
    following: Following | None


def answer_with(app: Celery, following: Following) -> None:
    """Let this worker say from now on that it follows runs, to whoever asks."""
    said = {"store": following.store, "namespace": following.namespace}
    setattr(type(app.tasks[_CARRIER]), ATTRIBUTE, json.dumps(said))


def ask_workers(app: Celery, connection: Connection) -> list[Worker]:
    """Ask every worker that the broker reaches; those that are too busy do not answer."""
    control: Any = app.control
    replies = control.broadcast(
        "registered",
        arguments={"taskinfoitems": [ATTRIBUTE], "builtins": True},
        connection=connection,
        reply=True,
        timeout=_PATIENCE,
    )
    return [
        _read(name, lines)
        for reply in replies or ()
        for name, lines in reply.items()
        if isinstance(lines, list)
    ]


def _read(name: str, lines: list[Any]) -> Worker:
    tasks: set[str] = set()
    following: Following | None = None
    for line in lines:
        task, _, said = str(line).partition(f" [{ATTRIBUTE}=")
        tasks.add(task)
        if task == _CARRIER:
            following = _following(said.removesuffix("]"))
    return Worker(name, frozenset(tasks), following)


def _following(said: str) -> Following | None:
    try:
        told = json.loads(said)
        return Following(str(told["store"]), str(told["namespace"]))
    except (ValueError, TypeError, KeyError):
        return None
