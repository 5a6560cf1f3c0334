"""`periodic`: when a task is due, written beside the task.

What is written is kept on the function, or on the task, itself. So it is found wherever the
task is registered, and there is no list that imports would have to fill in the right order.
Only ``@shared_task`` gives a stand-in that is no app's; those are listed. As Celery shares the
tasks of one app with all others of the process, they are periodic in all of them, unless the
task says ``shared=False``.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any, TypeVar

from celery import Celery, Task, _state
from celery.local import PromiseProxy, Proxy

from anarchon import ConfigurationError
from anarchon_celery.own_options import mapping, refuse_unknown

T = TypeVar("T")

#: Which apps there are, and which is the current one of this thread.
_celery: Any = _state

_MARK = "__anarchon_periodic__"
#: What stands for a task that is made later.
_STAND_INS = (PromiseProxy, Proxy)


@dataclass(frozen=True, eq=False)
class Periodic:
    """What was written beside a task; ``entry`` is it in the words of a beat schedule."""

    name: str | None
    entry: Mapping[str, object]


_shared: list[tuple[Any, Periodic]] = []
#: To be found on a task later, or somebody has left out ``@app.task``.
_on_functions: list[tuple[weakref.ref[Any], Periodic]] = []


def periodic(
    schedule: object,
    *,
    tz: str | tzinfo | None = None,
    name: str | None = None,
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
    options: Mapping[str, object] | None = None,
    **ours: object,
) -> Callable[[T], T]:
    """Make a task periodic; stands above or below ``@app.task`` or ``@shared_task``.

    ``schedule`` is whatever an entry of ``beat_schedule`` may have, ``tz`` the zone of a cron.
    The entry's ``name`` is the task's unless it is given: a task may be periodic more than
    once. ``options`` are those of the message, and all else is an option of the job. What is
    wrong with them is told with what is wrong with the other entries.
    """
    if inspect.isfunction(schedule) or isinstance(schedule, Task) or type(schedule) in _STAND_INS:
        raise ConfigurationError(
            "it stands there without a schedule", option="periodic", fix='write @periodic("10s")'
        )
    of_message = mapping("options", options)
    for option in ours:
        refuse_unknown(option)
    settled = dict(ours) if tz is None else {**ours, "timezone": tz}
    inline: Any = of_message.get("anarchon") or {}
    written = Periodic(
        name,
        {
            "schedule": schedule,
            "args": args,
            "kwargs": kwargs,
            "options": {**of_message, "anarchon": {**inline, **settled}},
        },
    )

    def decorate(task: T) -> T:
        _write(task, written)
        return task

    return decorate


def _write(task: Any, written: Periodic) -> None:
    # to look at a stand-in in any other way would make the task, before its app is set up
    if type(task) is PromiseProxy:
        made = task.__evaluated__()
        _write(task._get_current_object() if made else _function_behind(task), written)
    elif type(task) is Proxy:
        _shared.append((task, written))
    elif inspect.isfunction(task):
        _mark(task, written)
        _on_functions.append((weakref.ref(task), written))
    elif isinstance(task, Task):
        # each app that shares the task has one of its own, of the same function
        _mark(next(_functions_of(task), task), written)
    elif isinstance(task, type) and issubclass(task, Task):
        _mark(task, written)
    else:
        raise ConfigurationError(
            f"{task!r} is neither a task nor a function",
            option="periodic",
            fix="write @periodic(...) right above or below @app.task",
        )


def _function_behind(promise: Any) -> Any:
    # what it will be called with to make the task of it
    return object.__getattribute__(promise, "_Proxy__args")[0]


def _mark(task: Any, written: Periodic) -> None:
    setattr(task, _MARK, (*vars(task).get(_MARK, ()), written))


def periodic_entries(app: Celery) -> list[tuple[str, dict[str, object]]]:
    """Return name and entry of what is periodic by what is written beside its task."""
    return [
        (written.name or task, {**written.entry, "task": task})
        for written, task in _found_in(app).items()
    ]


def functions_without_task(app: Celery) -> list[str]:
    """Return the names of functions that are periodic, and tasks of no app."""
    others = [other for other in _celery._get_active_apps() if other is not app]
    if not all(other.finalized for other in others):
        return []  # it may yet become a task of theirs
    found = {written for each in (app, *others) for written in _found_in(each)}
    left = (reference() for reference, written in _on_functions if written not in found)
    # one made within another function may be gone, with its app, by the next collection
    return [
        f"{function.__module__}.{function.__qualname__}"
        for function in left
        if function is not None and "<locals>" not in function.__qualname__
    ]


def _found_in(app: Celery) -> dict[Periodic, str]:
    """Return the name of its task for whatever is periodic in an app."""
    found: dict[Periodic, str] = {}
    for name, task in sorted(app.tasks.items()):
        for written in _written_beside(task):
            found.setdefault(written, name)
    for stand_in, written in _shared:
        found.setdefault(written, _name_in(app, stand_in))
    return found


def _written_beside(task: Task[Any, Any]) -> Iterator[Periodic]:
    yield from vars(task).get(_MARK, ())
    yield from vars(type(task)).get(_MARK, ())
    for function in _functions_of(task):
        yield from vars(function).get(_MARK, ())


def _functions_of(task: Task[Any, Any]) -> Iterator[Any]:
    """Return the function of a task, and those that it wraps."""
    function: Any = inspect.getattr_static(type(task), "__wrapped__", None)
    while function is not None:
        function = getattr(function, "__func__", function)
        if hasattr(function, "__dict__"):
            yield function
        function = getattr(function, "__wrapped__", None)


def _name_in(app: Celery, stand_in: Any) -> str:
    # it stands for the task of whichever app is the current one
    before = _celery._tls.current_app
    _celery._set_current_app(app)
    try:
        return str(stand_in.name)
    finally:
        _celery._set_current_app(before)
