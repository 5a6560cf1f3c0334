"""The version of a namespace's keys: written by whoever comes first, and checked by all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis.exceptions import OutOfMemoryError

from anarchon.backends.redis.claim_modes import MODES
from anarchon.backends.redis.errors import raise_for
from anarchon.backends.redis.settings import Settings
from anarchon.backends.redis.wire import Command, refusals_in
from anarchon.errors import SchemaMismatch


def stamp(settings: Settings, key: str) -> list[Command]:
    """Return what writes the layout where there is none, and reads it."""
    # setting it is refused by a replica, also where it is set already
    return [("SET", key, settings.mode.layout, "NX"), ("GET", key)]


def check_stamp(settings: Settings, key: str, replies: Sequence[Any], place: str = "") -> None:
    """Raise where it could not be written or read, or is another one."""
    stamped, layout = replies
    if isinstance(stamped, OutOfMemoryError) and isinstance(layout, str):
        # renewing needs no memory, and must go on where the server is full
        stamped = None
    raise_for(settings, refusals_in([stamped, layout]), some_ran=False, place=place)
    check_layout(settings, key, layout)


def check_layout(settings: Settings, key: str, layout: str) -> None:
    mode = settings.mode
    if layout == mode.layout:
        return
    for other in MODES.values():
        if layout == other.layout:
            raise SchemaMismatch(
                settings.label,
                f"its keys are those of mode={other.name}, which does not see what is claimed by"
                f" mode={mode.name}: use the same mode everywhere, or another namespace ({key})",
            )
    raise SchemaMismatch(
        settings.label,
        f"its keys have layout {layout}, and this version of anarchon knows layout"
        f" {mode.layout} only ({key})",
    )
