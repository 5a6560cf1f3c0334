"""What ``--dramatiq`` means: a broker as `dramatiq` finds it, with the actors of its modules."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

from anarchon_beat.find import make_folder_importable
from anarchon_beat.mistakes import Mistake, told

if TYPE_CHECKING:
    import dramatiq

Broker: TypeAlias = "dramatiq.Broker"


def find_broker(names: Sequence[str]) -> Broker:
    """Import all that is named, and return the broker of the first; raises ``Mistake``.

    That is the attribute it names, or what this sets up when it is called, or the broker that
    is set once all is imported.
    """
    if find_spec("dramatiq") is None:
        raise Mistake(
            f"--dramatiq {names[0]}: Dramatiq is not installed; type: pip install"
            " 'anarchon[dramatiq]'"
        )
    make_folder_importable()
    found = _named(names[0])
    for name in names[1:]:
        _imported(name, name)
    from dramatiq import Broker, get_broker

    if isinstance(found, Broker):
        return found
    if found is not None and not callable(found):
        raise Mistake(
            f"--dramatiq {names[0]} is of the type {type(found).__name__}, and neither a Broker"
            " nor a function that sets one"
        )
    try:
        if found is not None:
            found()
        return get_broker()
    except (Exception, SystemExit) as error:
        raise Mistake(f"--dramatiq {names[0]}: {told(error)}") from error


def _named(name: str) -> object:
    module_name, _, path = name.partition(":")
    module = _imported(name, module_name)
    if not path:
        return None
    try:
        found: object = attrgetter(path)(module)
    except AttributeError:
        raise Mistake(f"--dramatiq {name}: module {module_name} has no {path!r}") from None
    return found


def _imported(name: str, module_name: str) -> ModuleType:
    if not all(part.isidentifier() for part in module_name.split(".")):
        raise Mistake(f"--dramatiq {name}: {module_name!r} is not the name of a module")
    try:
        return import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
            raise Mistake(
                f"--dramatiq {name}: there is no module {error.name!r} in {os.getcwd()}, nor where"
                " Python looks"
            ) from None
        raise Mistake(f"--dramatiq {name}: {told(error)}") from error
    except (Exception, SystemExit) as error:
        raise Mistake(f"--dramatiq {name}: {told(error)}") from error
