"""What runs at the places of a cluster: a scheduler of a Celery project, a service, a worker.

A further kind joins by a function here: its program, and the jobs that it declares.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import anarchon_dramatiq
from anarchon import RunContext, Scheduler
from anarchon.backends.memory import MemoryBackend
from anarchon.backends.memory_claims import MemoryClaimBackend
from anarchon.claim_store import AnyBackend
from anarchon.job import Job
from anarchon_celery import scheduler_for
from tests.cluster.places import BIN, Kind

PROJECT = Path(__file__).parent / "project"


def celery_beat(*, claims_only: bool = False) -> Kind:
    """Return the kind that publishes to a Celery worker."""
    project = _loaded("proj")
    project.app.conf.beat_schedule = project.entries(claims_only)
    scheduler = scheduler_for(project.app, store=_store(claims_only=claims_only))
    return Kind("beat", [BIN / "anarchon-beat", "-A", "proj", "-l", "info"], _told(scheduler))


def service(*, claims_only: bool = False) -> Kind:
    """Return the kind that does the work itself."""
    scheduler = Scheduler(_store(claims_only=claims_only))
    _loaded("service").declare(scheduler, claims_only)
    return Kind("service", [sys.executable, "service.py"], _told(scheduler))


def _store(*, claims_only: bool) -> AnyBackend:
    return MemoryClaimBackend() if claims_only else MemoryBackend()


def tracked_beat() -> Kind:
    """Return the kind that publishes what workers at other places follow to its end."""
    command: list[str | Path] = [BIN / "anarchon-beat", "-A", "followed", "-l", "info"]
    return Kind("beat", command, tracked_jobs())


def worker() -> Kind:
    """Return the kind that works on tracked runs, in two processes of its own."""
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "info"]
    command = ["-A", "followed", "worker", "-P", "prefork", "-c", "2", *quiet]
    return Kind("worker", [BIN / "celery", *command], tracked_jobs())


def dramatiq_beat() -> Kind:
    """Return the kind that publishes to workers of Dramatiq."""
    command: list[str | Path] = [BIN / "anarchon-beat", "--dramatiq", "followed_by_dramatiq"]
    return Kind("beat", [*command, "-l", "info"], dramatiq_jobs())


def dramatiq_worker() -> Kind:
    """Return the kind that works on tracked runs, in two processes of two threads."""
    # what a process receives is begun at once: it takes no more than it has threads for
    command: list[str | Path] = ["env", "dramatiq_queue_prefetch=2", BIN / "dramatiq"]
    project = ["followed_by_dramatiq", "-p", "2", "-t", "2"]
    return Kind("worker", [*command, *project], dramatiq_jobs())


def dramatiq_jobs() -> Sequence[Job]:
    """Return the jobs of Dramatiq's project."""
    return _told(anarchon_dramatiq.scheduler_for(_loaded("followed_by_dramatiq").broker))


def tracked_jobs() -> Sequence[Job]:
    """Return the jobs whose runs are tracked."""
    return _told(scheduler_for(_loaded("followed").app, store="memory://"))


def _told(scheduler: Scheduler) -> Sequence[Job]:
    # evidence is kept in files: it must not hang on a module of the project
    return [replace(job, action=_Elsewhere(job.name)) for job in scheduler.jobs]


@dataclass
class _Elsewhere:
    """Stands for what the instances do."""

    task: str
    sends_to: str = ""

    def publish(self, ctx: RunContext) -> str:
        raise AssertionError("the instances do the work")


@functools.cache
def _loaded(name: str) -> ModuleType:
    """Import a file of the project, which its own folder must be on the path for."""
    sys.path.insert(0, str(PROJECT))
    try:
        spec = importlib.util.spec_from_file_location(f"cluster_{name}", PROJECT / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(PROJECT))
