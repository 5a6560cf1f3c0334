"""A Celery project's periodic tasks as the jobs of a scheduler."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import Any

from celery import Celery

from anarchon import ConfigurationError, Publisher, Scheduler
from anarchon.claim_store import AnyBackend
from anarchon_celery.beat_entries import BeatEntries
from anarchon_celery.beat_sender import Sender
from anarchon_celery.broker import Broker
from anarchon_celery.entries import Entry, load, names_in
from anarchon_celery.errors import InvalidEntries
from anarchon_celery.publisher import CeleryPublisher
from anarchon_celery.settings import log, names_left_out, namespace_of, store_of, warn_of_unknown

#: A run that is not tracked ends with its message, and beat asks for no more.
DEFAULTS: dict[str, Any] = {"overlap": "allow"}


def scheduler_for(
    app: Celery,
    *,
    store: str | AnyBackend | None = None,
    disabled: Iterable[str] = (),
    **scheduler_options: Any,
) -> Scheduler:
    """Return a scheduler with a job for each periodic task of the app; connects nowhere yet.

    ``disabled`` names entries to leave out, beside those of ``anarchon_disabled``. The other
    options are the `Scheduler`'s; jobs may overlap unless one says ``overlap="skip"``.
    Raises ``InvalidEntries``, which tells everything that is wrong with the entries, and
    ``ConfigurationError`` for the rest.
    """
    return scheduler_of(entries_of(app, disabled), store=store, **scheduler_options)


def entries_of(
    app: Celery, disabled: Iterable[str] = (), *, sender: Sender | None = None
) -> BeatEntries:
    """Load the app, and return its entries as others may still change them."""
    load(app)
    warn_of_unknown(app)
    return BeatEntries(sender or Sender(app), _left_out(app, disabled))


def scheduler_of(
    shown: BeatEntries, *, store: str | AnyBackend | None = None, **scheduler_options: Any
) -> Scheduler:
    """Return a scheduler of the entries as they are by now; as `scheduler_for`."""
    app = shown.sender.app
    scheduler = Scheduler(
        store if store is not None and not isinstance(store, str) else store_of(app, store),
        **{"namespace": namespace_of(app), **DEFAULTS, **scheduler_options},
    )
    entries, problems = shown.read()
    broker = Broker(app)
    problems += declare(
        scheduler, entries, lambda entry: CeleryPublisher(shown.sender, entry, broker)
    )
    if problems:
        raise InvalidEntries(problems)
    return scheduler


def declare(
    scheduler: Scheduler, entries: Iterable[Entry], publisher_of: Callable[[Entry], Publisher]
) -> list[ConfigurationError]:
    """Give a scheduler the job of each entry, and return what is wrong with them."""
    problems: list[ConfigurationError] = []
    for entry in entries:
        try:
            scheduler.add(entry.name, entry.schedule, publisher_of(entry), **entry.job)  # type: ignore[arg-type]
        except ConfigurationError as error:
            problems.append(error)
    return problems


def _left_out(app: Celery, disabled: Iterable[str]) -> frozenset[str]:
    known = names_in(app)
    asked = frozenset((disabled,) if isinstance(disabled, str) else disabled)
    for name in sorted(asked - known):
        near = difflib.get_close_matches(name, known, n=1)
        raise ConfigurationError(
            f"there is no entry {name!r} to leave out",
            option="disabled",
            fix=f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(known))}",
        )
    configured = frozenset(names_left_out(app))
    for name in sorted(configured - known):
        # Settings are shared by deployments that need not have the same entries.
        log.warning("anarchon_disabled names %r, which is no entry", name)
    return asked | configured
