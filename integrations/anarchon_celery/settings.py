"""What a project's configuration says about us: the store, the namespace, what is left out."""

from __future__ import annotations

import difflib
import logging
import weakref
from collections.abc import Iterable
from typing import Any

from celery import Celery

from anarchon import ConfigurationError
from anarchon.job import yes_or_no
from anarchon_celery.redis_urls import store_in

log = logging.getLogger("anarchon.celery")

_FALLBACK = "sqlite:///anarchon.db"
#: Scheduler, workers and banner each look for the store; once is enough for a reader.
_told_of_fallback: weakref.WeakSet[Celery] = weakref.WeakSet()
#: Those that run the entries of ``beat_schedule`` and no others.
_READ_SETTINGS = {
    "anarchon",
    *(f"celery.beat{mark}{name}" for mark in ":." for name in ("PersistentScheduler", "Scheduler")),
    *(f"anarchon_celery.beat{mark}AnarchonScheduler" for mark in ":."),
}


_OURS = tuple(
    f"anarchon_{name}" for name in ("store", "namespace", "disabled", "jobs", "track", "embedded")
)


def warn_of_unknown(app: Celery) -> None:
    """Say which settings look like ours and are not: a namespace that is not read parts nobody."""
    for key in app.conf:
        name = str(key).lower().removeprefix("celery_")
        if not name.startswith("anarchon_") or name in _OURS:
            continue
        near = difflib.get_close_matches(name, _OURS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(_OURS)}"
        log.warning("there is no setting %s; %s", key, hint)


def setting(app: Celery, name: str) -> Any:
    """Return a setting of ours, however the project spells its settings; ``None`` if not set."""
    # Celery finds the namespaced spelling by the lower-case name, but translates its own
    # names only: in a configuration of old upper-case names ours stays as it was written.
    for spelling in (name, name.upper(), f"CELERY_{name.upper()}"):
        value = app.conf.get(spelling)
        if value is not None:
            return value
    return None


def flag(app: Celery, name: str) -> bool:
    """Return a setting of ours that is yes or no; no where it is not set."""
    value = setting(app, name)
    return value is not None and yes_or_no(name, value)


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
    found = _redis_of(app)
    if found is not None:
        return found[1]
    if app not in _told_of_fallback:
        _told_of_fallback.add(app)
        log.warning(
            "no store is configured and neither broker nor result backend is a Redis: using %s,"
            " which instances on this one machine can share; set anarchon_store for more",
            _FALLBACK,
        )
    return _FALLBACK


def origin_of_store(app: Celery) -> str:
    """Return the setting that names the project's store, or that there is none."""
    if setting(app, "anarchon_store") is not None:
        return "anarchon_store"
    try:
        found = _redis_of(app)
    except ConfigurationError as error:
        return str(error.option)
    return "the default" if found is None else found[0]


def _redis_of(app: Celery) -> tuple[str, str] | None:
    """Return the setting that names a Redis, and the store that this is."""
    conf = app.conf
    for name, security in (
        ("broker_url", "broker_use_ssl"),
        ("result_backend", "redis_backend_use_ssl"),
    ):
        found = store_in(name, conf.get(name), conf.get(security))
        if found is not None:
            return name, found
    return None


def has_namespace(app: Celery) -> bool:
    """Tell whether the project says by a name of its own who shares slots with it."""
    return bool(app.main) or setting(app, "anarchon_namespace") is not None


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
    return None if text in _READ_SETTINGS else text


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
