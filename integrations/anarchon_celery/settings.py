"""What a project's configuration says about us: the store, the namespace, what is left out."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from celery import Celery

from anarchon import ConfigurationError
from anarchon_celery.redis_urls import store_in

log = logging.getLogger("anarchon.celery")

_FALLBACK = "sqlite:///anarchon.db"
_STOCK_SCHEDULERS = {
    f"celery.beat{mark}{name}" for mark in ":." for name in ("PersistentScheduler", "Scheduler")
}


def setting(app: Celery, name: str) -> Any:
    """Return a setting of ours, however the project spells its settings; ``None`` if not set."""
    # Celery finds the namespaced spelling by the lower-case name, but translates its own
    # names only: in a configuration of old upper-case names ours stays as it was written.
    for spelling in (name, name.upper(), f"CELERY_{name.upper()}"):
        value = app.conf.get(spelling)
        if value is not None:
            return value
    return None


def store_of(app: Celery, given: str | None = None) -> str:
    """Return the store's URL: the given one, the project's, or the Redis that it uses anyway.

    Raises ``ConfigurationError`` where the broker's URL cannot serve as it is.
    """
    url = given if given is not None else setting(app, "anarchon_store")
    if url is not None:
        if isinstance(url, str) and url:
            return url
        raise ConfigurationError(
            f"{url!r} is not a URL",
            option="anarchon_store",
            fix='write one such as "redis://HOST:6379/0"',
        )
    conf = app.conf
    found = store_in("broker_url", conf.broker_url, conf.get("broker_use_ssl")) or store_in(
        "result_backend", conf.result_backend, conf.get("redis_backend_use_ssl")
    )
    if found is not None:
        return found
    log.warning(
        "no store is configured and neither broker nor result backend is a Redis: using %s,"
        " which instances on this one machine can share; set anarchon_store for more",
        _FALLBACK,
    )
    return _FALLBACK


def namespace_of(app: Celery) -> str:
    """Return the part of the store that this project's instances share."""
    name = setting(app, "anarchon_namespace")
    if name is None:
        return str(app.main or "celery")
    if isinstance(name, str):
        return name
    raise ConfigurationError(
        f"{name!r} cannot be a namespace", option="anarchon_namespace", fix="write a text"
    )


def foreign_beat_scheduler(app: Celery) -> str | None:
    """Return the project's ``beat_scheduler`` unless it is one that reads the settings only."""
    chosen = app.conf.beat_scheduler
    if chosen is None:
        return None
    text = chosen if isinstance(chosen, str) else f"{chosen.__module__}:{chosen.__qualname__}"
    return None if text in _STOCK_SCHEDULERS else text


def names_left_out(app: Celery) -> tuple[str, ...]:
    """Return the names of ``anarchon_disabled``."""
    names = setting(app, "anarchon_disabled")
    if names is None:
        return ()
    listed = isinstance(names, Iterable) and not isinstance(names, str | bytes)
    if not listed or not all(isinstance(name, str) for name in names):
        raise ConfigurationError(
            f"{names!r} is not a list of names",
            option="anarchon_disabled",
            fix='write the names of entries: ["nightly-report"]',
        )
    return tuple(names)
