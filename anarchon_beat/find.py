"""What ``-A`` means: a Celery app as ``celery`` finds it, or a Scheduler as ``module:name``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias, TypeGuard, TypeVar

from anarchon import Scheduler
from anarchon_beat.mistakes import Mistake, told

if TYPE_CHECKING:
    from celery import Celery

CeleryApp: TypeAlias = "Celery"
T = TypeVar("T")


def find(name: str) -> Scheduler | CeleryApp:
    """Return the app or scheduler of this name; raises ``Mistake``."""
    make_folder_importable()
    found = _attribute(name) if ":" in name else _in_module(name)
    if isinstance(found, Scheduler) or _is_celery(found):
        return found
    raise Mistake(
        f"-A {name} is {_article(type(found).__name__)}, and neither a Celery app nor a Scheduler"
    )


def make_folder_importable() -> None:
    """Let modules of the current folder be imported; raises ``Mistake``."""
    try:
        cwd = os.getcwd()
    except FileNotFoundError:
        raise Mistake("the folder that this was started in is gone: change to another") from None
    if cwd not in sys.path:
        # as `celery` does, but for good: a task may be imported when it is first due
        sys.path.insert(0, cwd)


def _attribute(name: str) -> object:
    module_name, _, path = name.partition(":")
    module = _imported(name, module_name)
    try:
        return _their_code(name, lambda: attrgetter(path)(module))
    except AttributeError:
        raise Mistake(f"-A {name}: module {module_name} has no {path!r}") from None


def _in_module(name: str) -> object:
    """Return what the name of a module, or a dotted name, stands for to `celery`."""
    module = _longest_module(name)
    if find_spec("celery") is None:
        hint = _schedulers_hint(module)
        raise Mistake(
            f"-A {name}: Celery is not installed; "
            + (hint or "type: pip install 'anarchon[celery]', or name a Scheduler: -A module:name")
        )
    from celery.app.utils import find_app

    try:
        return _their_code(name, lambda: find_app(name))
    except (AttributeError, ModuleNotFoundError):
        pass
    # `celery` hides what went wrong in a package's own celery.py
    submodule = f"{module.__name__}.celery"
    if hasattr(module, "__path__") and find_spec(submodule) is not None:
        _imported(name, submodule)
    hint = _schedulers_hint(module) or f"name it: -A {module.__name__}:attribute"
    raise Mistake(f"-A {name}: there is no Celery app in {module.__name__}; {hint}")


def _longest_module(name: str) -> ModuleType:
    """Import as much of a dotted name as is a module."""
    parts = name.split(".")
    module = _imported(name, parts[0])
    for length in range(2, len(parts) + 1):
        longer = ".".join(parts[:length])
        if hasattr(module, parts[length - 1]) or not hasattr(module, "__path__"):
            break
        module = _imported(name, longer)
    return module


def _imported(name: str, module_name: str) -> ModuleType:
    if not all(part.isidentifier() for part in module_name.split(".")):
        raise Mistake(f"-A {name}: {module_name!r} is not the name of a module")
    try:
        return _their_code(name, lambda: import_module(module_name))
    except ModuleNotFoundError as error:
        raise Mistake(
            f"-A {name}: there is no module {error.name!r} in {os.getcwd()}, nor where Python looks"
        ) from None
    except AttributeError as error:
        raise Mistake(f"-A {name}: {told(error)}") from error


def _their_code(name: str, call: Callable[[], T]) -> T:
    """Run what imports a user's modules; whatever these raise becomes a ``Mistake``."""
    try:
        return call()
    except ModuleNotFoundError as error:
        if error.name is not None and (name + ".").startswith((error.name + ".", error.name + ":")):
            raise
        raise Mistake(f"-A {name}: {told(error)}") from error
    except AttributeError:
        raise
    except (Exception, SystemExit) as error:
        raise Mistake(f"-A {name}: {told(error)}") from error


def _schedulers_hint(module: ModuleType) -> str | None:
    names = [key for key, value in vars(module).items() if isinstance(value, Scheduler)]
    return f"did you mean -A {module.__name__}:{names[0]}?" if names else None


def _is_celery(found: object) -> TypeGuard[CeleryApp]:
    # whoever has made a Celery app has imported celery
    celery = sys.modules.get("celery")
    return celery is not None and isinstance(found, celery.Celery)


def _article(noun: str) -> str:
    return f"{'an' if noun[0] in 'AEIOUaeiou' else 'a'} {noun}"
