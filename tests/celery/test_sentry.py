"""Sentry's monitors of periodic tasks, by its real SDK; what it would send is caught."""

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.celery.beats import Start, write_project

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("celery-beats")]

SENTRY = """
import os, json
import sentry_sdk
from celery.schedules import crontab
from sentry_sdk.integrations.celery import CeleryIntegration
from sentry_sdk.transport import Transport
import anarchon_celery

class Caught(Transport):
    def capture_envelope(self, envelope):
        for item in envelope.items:
            if item.type == "check_in":
                line = "CHECK-IN " + json.dumps(item.payload.json) + "\\n"
                os.write(1, line.encode())

sentry_sdk.init(
    "http://key@127.0.0.1/1",
    transport=Caught,
    integrations=[CeleryIntegration(monitor_beat_tasks=True)],
)
anarchon_celery.install(app)

app.conf.beat_schedule = {
    "report": {
        "task": "shop.note",
        "schedule": crontab(),
        "args": [1],
        "options": {"headers": {"mine": "yes"}, "anarchon": {"run_at_start": True}},
    },
}
"""

TWICE = """
import dataclasses
from anarchon_celery.scheduling import entries_of, scheduler_of
from kombu import Queue
from proj import app
from tests.celery.runs import run

(job,) = scheduler_of(entries_of(app), store="memory://").jobs
for token in ("one", "two"):
    job.action.publish(run("report", token=token))
with app.connection_for_read() as connection:
    queue = Queue(app.conf.task_default_queue).bind(connection.default_channel)
    for _ in range(2):
        headers = queue.get(no_ack=True).headers
        print("SENT", json.dumps({name: headers.get(name) for name in (
            "mine", "sentry-monitor-slug", "sentry-monitor-check-in-id")}))
print("KEPT", json.dumps(app.conf.beat_schedule["report"]["options"]["headers"]))
"""


def said(output: str, word: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in re.findall(rf"^{word} (.+)$", output, re.MULTILINE)]


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("celery", ("-A", "proj", "beat", "-S", "anarchon")),
        ("anarchon_beat", ("-A", "proj")),
    ],
)
def test_what_is_published_is_checked_in_and_the_worker_checks_it_out(
    tmp_path: Path,
    celery: Start,
    program: Start,
    beats_broker: str,
    module: str,
    arguments: tuple[str, ...],
) -> None:
    write(tmp_path, beats_broker)
    quiet = ("--without-gossip", "--without-mingle", "-P", "solo", "-l", "info")
    worker = celery("-A", "proj", "worker", "-Q", tmp_path.name, *quiet)
    worker.read_until("ready.")

    beat = program(module, *arguments, "-l", "info")
    beat.read_until('CHECK-IN {"')
    worker.read_until('CHECK-IN {"')

    assert beat.end(signal.SIGTERM) == 0
    assert worker.end(signal.SIGTERM) == 0
    # a minute may have passed meanwhile, and with it another run
    begun, ended = said(beat.output, "CHECK-IN")[0], said(worker.output, "CHECK-IN")[0]
    assert (begun["monitor_slug"], begun["status"]) == ("report", "in_progress")
    assert begun["monitor_config"]["schedule"] == {"type": "crontab", "value": "* * * * *"}
    assert (ended["monitor_slug"], ended["status"]) == ("report", "ok")
    assert ended["check_in_id"] == begun["check_in_id"]


def test_two_runs_of_an_entry_are_two_check_ins(tmp_path: Path, program: Start) -> None:
    write(tmp_path, "memory://")
    (tmp_path / "twice.py").write_text("import json\n" + TWICE)

    twice = program("twice")

    assert twice.end() == 0, twice.output
    first, second = said(twice.output, "SENT")
    assert first["mine"] == second["mine"] == "yes"
    assert first["sentry-monitor-slug"] == second["sentry-monitor-slug"] == "report"
    assert first["sentry-monitor-check-in-id"] != second["sentry-monitor-check-in-id"]
    assert said(twice.output, "KEPT") == [{"mine": "yes"}]


def write(folder: Path, broker: str) -> None:
    more = SENTRY + f"app.conf.task_default_queue = {folder.name!r}\n"
    write_project(folder, broker, more=more, anarchon_namespace=folder.name)
