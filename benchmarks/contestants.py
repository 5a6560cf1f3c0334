"""Who is measured, and how each is started."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks import peers
from benchmarks.stores import Store, Stores

#: Where one of ours tells that it is ready.
HEALTH = "health.json"
BROKER = "redis-8.0"
BEAT, REDBEAT, DJANGO, OURS = "celery beat", "redbeat", "django-celery-beat", "anarchon-beat"
MULTIBEAT = "celery-multibeat-scheduler"
_PROJECT, _DJANGO_PROJECT = "benchmarks.projects.shop", "benchmarks.projects.django_shop"


@dataclass(frozen=True)
class Contestant:
    """A scheduler, in so many processes.

    ``fill`` runs to its end before its slot is chosen, ``before`` after that. ``spec`` is
    what its project differs in from the others', ``each`` what is added to the command of each
    process. Of who ``tells_ready`` there is a file that says so.
    """

    name: str
    command: tuple[str, ...]
    instances: int = 1
    spec: Mapping[str, Any] = field(default_factory=dict)
    fill: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    each: tuple[tuple[str, ...], ...] = ()
    tells_ready: bool = False

    @property
    def label(self) -> str:
        """What the table calls it."""
        return self.name if self.instances == 1 else f"{self.name} × {self.instances}"


def ours(store: Store, instances: int, namespace: str, **options: Any) -> Contestant:
    """Return `anarchon-beat` in so many instances on a store; ``options`` are those of the jobs."""
    return Contestant(
        f"{OURS} on {store.name}",
        (sys.executable, "-m", "anarchon_beat", "-A", _PROJECT, "--health-file", HEALTH),
        instances,
        {
            "settings": {
                "anarchon_store": store.url(namespace),
                "anarchon_namespace": namespace,
            },
            # an empty mapping would be taken for a peer's project
            "ours": {"overlap": "allow", **options},
        },
        tells_ready=True,
    )


def beat() -> Contestant:
    """Return Celery's own scheduler; raises ``NoPeers``."""
    return Contestant(BEAT, _celery(peers.python(), "celery.beat:PersistentScheduler"))


def redbeat(url: str, instances: int = 1, **settings: Any) -> Contestant:
    """Return RedBeat, which keeps its entries in the broker's Redis; raises ``NoPeers``."""
    return Contestant(
        REDBEAT,
        _celery(peers.python(), "redbeat.RedBeatScheduler"),
        instances,
        {"settings": {"redbeat_redis_url": url, **settings}},
    )


def multibeat(url: str, instances: int, **settings: Any) -> Contestant:
    """Return a beat whose processes elect a leader in Redis; raises ``NoPeers``."""
    return Contestant(
        MULTIBEAT,
        _celery(peers.python(), "multibeat.schedulers.MultiBeatPersistentScheduler"),
        instances,
        {"settings": {"multibeat_url": url, **settings}},
    )


def django(stores: Stores) -> Contestant | None:
    """Return django-celery-beat on PostgreSQL, if that is there; raises ``NoPeers``."""
    store = stores.get("postgres-18")
    if store is None or store.server is None:
        return None
    python = peers.python()
    return Contestant(
        f"{DJANGO} on {store.name}",
        _celery(python, "django_celery_beat.schedulers:DatabaseScheduler", _DJANGO_PROJECT),
        spec={
            "database": {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": "postgres",
                "USER": "postgres",
                "HOST": "127.0.0.1",
                "PORT": store.server.port,
                # the tests' servers speak in ways that psycopg does not read
                "OPTIONS": {"options": "-c datestyle=ISO -c intervalstyle=postgres"},
            }
        },
        fill=(str(python), "-m", _DJANGO_PROJECT, "fill"),
        before=(str(python), "-m", _DJANGO_PROJECT, "set-minute"),
    )


def flat_out(jobs: int, processes: int) -> Contestant:
    """Return what publishes so many messages at its first slot, and schedules nothing."""
    shares = [jobs * number // processes for number in range(processes + 1)]
    return Contestant(
        "flat out",
        (sys.executable, "-m", "benchmarks.projects.flat_out"),
        processes,
        each=tuple((str(first), str(last - first)) for first, last in pairwise(shares)),
    )


def _celery(python: Path, scheduler: str, project: str = _PROJECT) -> tuple[str, ...]:
    return (str(python), "-m", "celery", "-A", project, "beat", "-S", scheduler)
