"""The check of a Dramatiq project: its broker, and whether a worker is there.

Workers of Dramatiq cannot be asked, and nobody keeps a list of them. What can be seen is who
consumes from a queue of RabbitMQ, and when a process was last heard of on Redis.
"""

from __future__ import annotations

from anarchon import Scheduler
from anarchon_beat.check_findings import Findings
from anarchon_beat.mistakes import STORE_UNREACHABLE, told
from anarchon_dramatiq.publisher import DramatiqPublisher
from anarchon_dramatiq.way import unattended


def check(scheduler: Scheduler, findings: Findings) -> None:
    """Look for signs of workers, and take in where there are none."""
    jobs: dict[str, list[str]] = {}
    publisher: DramatiqPublisher | None = None
    for job in scheduler.jobs:
        assert isinstance(job.action, DramatiqPublisher), "its jobs are a broker's schedules"
        publisher = job.action
        jobs.setdefault(publisher.actor.queue_name, []).append(job.name)
    if publisher is None:
        return
    try:
        found = unattended(publisher.actor.broker, jobs)
    except Exception as error:
        problem = f"the broker {publisher.sends_to} cannot be used: {told(error)}"
        findings.unreachable(problem, "broker", STORE_UNREACHABLE)
        return
    for queue, problem in found.items():
        findings.warning(problem, tuple(jobs[queue]), "broker", "start one: dramatiq MODULE")
