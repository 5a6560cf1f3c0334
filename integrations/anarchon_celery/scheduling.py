"""A Celery project's periodic tasks as the jobs of a scheduler."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from celery import Celery

from anarchon import ConfigurationError, Scheduler
from anarchon.store import Backend
from anarchon_celery.broker import Broker
from anarchon_celery.entries import load, names_in, read_entries
from anarchon_celery.errors import InvalidEntries
from anarchon_celery.publisher import CeleryPublisher
from anarchon_celery.settings import log, names_left_out, namespace_of, store_of


def scheduler_for(
    app: Celery,
    *,
    store: str | Backend | None = None,
    disabled: Iterable[str] = (),
    **scheduler_options: Any,
) -> Scheduler:
    """Return a scheduler with a job for each periodic task of the app; connects nowhere yet.

    ``disabled`` names entries to leave out, beside those of ``anarchon_disabled``. The other
    options are the `Scheduler`'s; jobs may overlap unless one says ``overlap="skip"``.
    Raises ``InvalidEntries``, which tells everything that is wrong with the entries, and
    ``ConfigurationError`` for the rest.
    """
    load(app)
    scheduler = Scheduler(
        store if store is not None and not isinstance(store, str) else store_of(app, store),
        **{"namespace": namespace_of(app), "overlap": "allow", **scheduler_options},
    )
    entries, problems = read_entries(app, _left_out(app, disabled))
    broker = Broker(app)
    for entry in entries:
        publisher = CeleryPublisher(app, entry, broker)
        try:
            scheduler.add(entry.name, entry.schedule, publisher, **entry.ours)  # type: ignore[arg-type]
        except ConfigurationError as error:
            problems.append(error)
    if problems:
        raise InvalidEntries(problems)
    return scheduler


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
