"""The check of a Celery project: its entries, their tasks, its broker, and its workers."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from typing import Any

from anarchon import Job, RunContext, Scheduler, SystemClock
from anarchon.backends import open_backend
from anarchon.backends.memory import MemoryBackend
from anarchon.claim_store import AnyBackend
from anarchon_beat.check import Checked
from anarchon_beat.check_findings import Findings
from anarchon_beat.config import Settings, refuse_other_entries
from anarchon_beat.find import CeleryApp
from anarchon_beat.mistakes import STORE_UNREACHABLE, told
from anarchon_celery.answering import Following, Worker, ask_workers
from anarchon_celery.beat_entries import BeatEntries
from anarchon_celery.beside_tasks import periodic_entries
from anarchon_celery.broker import Broker
from anarchon_celery.differences import differences
from anarchon_celery.embedded import is_wanted
from anarchon_celery.entries import Entry
from anarchon_celery.scheduling import DEFAULTS, declare, entries_of
from anarchon_celery.settings import has_namespace, namespace_of, store_of
from anarchon_celery.tracking_worker import tracking_of

_INSTALL = "call anarchon_celery.install(app) where the app is made"


def check(app: CeleryApp, settings: Settings, findings: Findings, offline: bool) -> Checked:
    """Look at all of it, and take in what is found."""
    findings.of(lambda: refuse_other_entries(app, settings))
    shown = findings.of(lambda: entries_of(app, settings.disable))
    backend = findings.of(lambda: open_backend(store_of(app, settings.store)))
    namespace = findings.of(lambda: _namespace(app, settings, findings))
    broker = findings.of(lambda: Broker(app))
    findings.of(lambda: is_wanted(app))
    entries, jobs = ([], ()) if shown is None else _entries(app, shown, backend, findings)
    where = _scheduler(backend, namespace, findings)
    workers = None if offline or broker is None else _workers(app, broker, findings)
    _check_tasks(app, entries, workers or (), findings)
    tracked = [entry for entry in entries if entry.job.get("track") is True]
    if tracked:
        here = None if where is None else Following(where.store, where.namespace)
        _check_tracking(app, tracked, workers or (), here, findings)
    return Checked(where, len(entries), jobs, None if workers is None else len(workers))


def _namespace(app: CeleryApp, settings: Settings, findings: Findings) -> str:
    if settings.namespace is not None:
        return settings.namespace
    if not has_namespace(app):
        findings.warning(
            f"the app has no name, so it shares slots with any other on this store that has none"
            f" ({namespace_of(app)!r})",
            option="anarchon_namespace",
            fix='name the app, Celery("shop"), or set anarchon_namespace',
        )
    return namespace_of(app)


def _scheduler(
    backend: AnyBackend | None, namespace: str | None, findings: Findings
) -> Scheduler | None:
    if backend is None or namespace is None:
        return None
    return findings.of(lambda: Scheduler(backend, namespace=namespace))


def _entries(
    app: CeleryApp, shown: BeatEntries, backend: AnyBackend | None, findings: Findings
) -> tuple[list[Entry], tuple[Job, ...]]:
    """Return the entries that can be read, and their jobs; take in what is wrong and differs."""
    entries, problems = shown.read()
    # what its store cannot do is a mistake too
    scheduler = Scheduler(backend or MemoryBackend(), **DEFAULTS)
    for problem in (*problems, *declare(scheduler, entries, lambda entry: _Nowhere(entry.task))):
        findings.error(problem)
    jobs = {job.name: job for job in scheduler.jobs}
    beside = {name for name, _ in periodic_entries(app)}
    now = SystemClock().wall()
    for entry in entries:
        if entry.name in jobs:
            for found in differences(entry, jobs[entry.name], now, beside):
                findings.note(found.text, (entry.name,), found.option)
    return entries, scheduler.jobs


class _Nowhere:
    """Stands for the publisher of an entry, and sends nothing."""

    sends_to = ""

    def __init__(self, task: str) -> None:
        self.task = task

    def publish(self, ctx: RunContext) -> str:
        raise AssertionError("a check sends nothing")


def _workers(app: CeleryApp, broker: Broker, findings: Findings) -> list[Worker] | None:
    """Ask the workers; ``None`` if none could be asked."""
    try:
        with broker.producer() as producer:
            channel: Any = producer.channel
            return _answers(app, channel.connection.client, findings)
    except Exception as error:
        problem = f"the broker {broker.address} cannot be used: {told(error)}"
        findings.unreachable(problem, "broker_url", STORE_UNREACHABLE)
        return None


def _answers(app: CeleryApp, connection: Any, findings: Findings) -> list[Worker] | None:
    if not connection.supports_exchange_type("fanout"):
        findings.note(f"workers cannot be asked over {connection.transport.driver_type}")
        return None
    try:
        return ask_workers(app, connection)
    except Exception as error:
        findings.note(f"workers could not be asked: {told(error)}")
        return None


def _check_tasks(
    app: CeleryApp, entries: Sequence[Entry], workers: Sequence[Worker], findings: Findings
) -> None:
    known: set[str] = {str(name) for name in app.tasks}
    known.update(task for worker in workers for task in worker.tasks)
    for entry in entries:
        if entry.task in known:
            continue
        none_knows = (
            "known neither here nor to a worker that answered"
            if workers
            else "not known here, and no worker was there to be asked"
        )
        near = difflib.get_close_matches(entry.task, known, n=1)
        findings.warning(
            f"{entry.task!r} is {none_knows}",
            (entry.name,),
            "task",
            f"did you mean {near[0]!r}?"
            if near
            else "import its module where the app is made, so that it is known here too",
        )


def _check_tracking(
    app: CeleryApp,
    tracked: Sequence[Entry],
    workers: Sequence[Worker],
    here: Following | None,
    findings: Findings,
) -> None:
    names = tuple(entry.name for entry in tracked)
    if not workers and tracking_of(app) is None:
        findings.warning(
            "no worker answered, and the project does not connect its workers here",
            names,
            "track",
            _INSTALL,
        )
    for worker in workers:
        _check_worker(worker, tracked, here, findings)


def _check_worker(
    worker: Worker, tracked: Collection[Entry], here: Following | None, findings: Findings
) -> None:
    jobs = tuple(entry.name for entry in tracked if entry.task in worker.tasks)
    if not jobs:
        return
    if worker.following is None:
        findings.warning(
            f"worker {worker.name} does not follow their runs",
            jobs,
            "track",
            f"{_INSTALL}, and start it anew",
        )
    elif here is not None and worker.following != here:
        findings.warning(
            f"worker {worker.name} follows runs of namespace {worker.following.namespace!r} in"
            f" {worker.following.store}, and not of {here.namespace!r} in {here.store}",
            jobs,
            "track",
            "give both the same anarchon_store and anarchon_namespace",
        )
