"""Where the store of a schedule was named: whoever reads that it is away may want to look there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anarchon import AnarchonError, ConfigurationError, Scheduler, StoreError
from anarchon_beat.mistakes import Mistake, code_of

if TYPE_CHECKING:
    from anarchon_beat.config import Settings
    from anarchon_beat.find import CeleryApp

#: As the option of the command, and of everything that takes a store, is called.
STORE = "store"
BY_OPTION = "--store"


def store_set_by(settings: Settings, found: Scheduler | CeleryApp) -> str | None:
    """Return the option or setting that names the store; ``None`` where code does."""
    if settings.store is not None:
        return BY_OPTION
    if isinstance(found, Scheduler):
        return None
    # not at the top: a plain Scheduler needs no Celery
    from anarchon_celery.settings import origin_of_store

    return origin_of_store(found)


def place_of_store(store: str | None, set_by: str | None) -> str:
    """Return how a message names the store, as it may be shown, and what names it."""
    named = f"{STORE} {store}" if store is not None else STORE
    return f"{named} ({set_by})" if set_by is not None else named


def mistake_of(error: AnarchonError, set_by: str | None) -> Mistake:
    """Return what to raise for an error of the engine's; about the store, it says what set that."""
    if isinstance(error, StoreError):
        told = f"{place_of_store(error.store, set_by)}: {error.problem}"
    elif isinstance(error, ConfigurationError) and error.option == STORE:
        told = str(error).replace(STORE, place_of_store(None, set_by), 1)
    else:
        told = str(error)
    return Mistake(told, code_of(error))
