"""`anarchon-beat check`: all that is wrong at once. Starts nothing, changes nothing, sends no task.

A store is looked at without being opened, so no tables are made or brought to this version.
Workers are asked by Celery's remote control; Dramatiq's have left signs at their broker, or not.
"""

from __future__ import annotations

from dataclasses import dataclass

from anarchon import Job, Scheduler, Standing
from anarchon_beat.check_findings import Finding, Findings, Level
from anarchon_beat.check_store import check_promises, examine
from anarchon_beat.config import Settings, found_by
from anarchon_beat.find import CeleryApp
from anarchon_beat.origin import store_set_by
from anarchon_beat.streams import say
from anarchon_beat.tables import print_json, printable

VERSION = "anarchon.check/1"


@dataclass(frozen=True, slots=True)
class Checked:
    """What was looked at; ``scheduler`` has no jobs where they could not be read."""

    scheduler: Scheduler | None
    jobs: int
    declared: tuple[Job, ...] = ()
    """Those of the jobs in which nothing is wrong."""
    workers: int | None = None
    """How many answered; ``None`` where none was asked."""


def show(settings: Settings, *, offline: bool, as_json: bool) -> int:
    """Print what is found, and return the exit code. Raises ``Mistake`` without an app."""
    findings = Findings()
    with findings.heard():
        found = found_by(settings)
        findings.store_set_by = store_set_by(settings, found)
    # once more: a project may have set up its logging meanwhile
    with findings.heard():
        checked = _check(found, settings, findings, offline)
        standing = None
        if checked.scheduler is not None:
            findings.store = checked.scheduler.store
            check_promises(checked.scheduler.backend, checked.declared, findings)
            standing = None if offline else examine(checked.scheduler, findings)
    if as_json:
        _print_json(settings, checked, standing, findings)
    else:
        lines = [printable(str(found)) for found in findings]
        say("\n".join([*lines, _summary(checked, standing, findings)]))
    return findings.code


def _check(
    found: Scheduler | CeleryApp, settings: Settings, findings: Findings, offline: bool
) -> Checked:
    if isinstance(found, Scheduler):
        checked = Checked(found, len(found.jobs), found.jobs)
        if settings.dramatiq and not offline:
            # nor does one need Dramatiq
            from anarchon_beat import check_dramatiq

            check_dramatiq.check(found, findings)
    else:
        # a plain Scheduler needs no Celery
        from anarchon_beat.check_celery import check

        checked = check(found, settings, findings, offline)
    if not checked.jobs and not findings.count(Level.ERROR):
        findings.warning("there are no jobs: nothing will be scheduled")
    return checked


def _summary(checked: Checked, standing: Standing | None, findings: Findings) -> str:
    said = [_counted(checked.jobs, "job")]
    if checked.scheduler is not None:
        said.append(f"in namespace {checked.scheduler.namespace!r} on {checked.scheduler.store}")
    if standing is not None:
        said.append(f"({standing.server})")
    if checked.workers is not None:
        said.append(f"with {_counted(checked.workers, 'worker')} that answered")
    counts = ", ".join(_counted(findings.count(level), level) for level in Level)
    return printable(f"{' '.join(said)}: {counts}")


def _counted(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def _print_json(
    settings: Settings, checked: Checked, standing: Standing | None, findings: Findings
) -> None:
    scheduler = checked.scheduler
    print_json(
        VERSION,
        app=settings.name,
        namespace=None if scheduler is None else scheduler.namespace,
        store=None if scheduler is None else scheduler.store,
        server=None if standing is None else standing.server,
        jobs=checked.jobs,
        workers=checked.workers,
        findings=[_as_json(found) for found in findings],
    )


def _as_json(found: Finding) -> dict[str, object]:
    return {
        "level": found.level.value,
        "jobs": list(found.jobs),
        "option": found.option,
        "set_by": found.set_by,
        "problem": found.problem,
        "fix": found.fix,
    }
