"""A rolling deploy: half of the pods, which run the schedule themselves, have an older one."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.celery.situations.fleet import Process, Situation, once_each, tracked

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(180),
    pytest.mark.xdist_group("celery-situations-of-workers"),
]


def two_pods(situation: Situation, queue: str, entries: Mapping[str, Any]) -> list[Process]:
    threads = ("-P", "threads", "-c", "4")
    return [situation.worker(queue, *threads, entries=entries) for _ in range(2)]


def test_a_job_that_only_some_pods_know_runs_while_one_of_them_lives(
    situation: Situation, queue: str
) -> None:
    kept = {"kept": tracked(queue=queue)}
    old = two_pods(situation, queue, {**kept, "removed": tracked(queue=queue)})
    situation.until_more_ran("removed")
    two_pods(situation, queue, {**kept, "added": tracked(queue=queue)})
    situation.until_more_ran("added")

    situation.until_more_ran("removed")
    assert [pod.end() for pod in old] == [0, 0]
    gone = len(situation.ran("removed"))
    situation.until_more_ran("kept")
    situation.until_more_ran("added")

    assert len(situation.ran("removed")) == gone
    for job in ("kept", "added", "removed"):
        assert once_each(situation.ran(job))


def test_a_run_that_is_unknown_to_the_new_pods_is_left_to_an_old_one(
    redis_situation: Situation, queue: str
) -> None:
    situation, entries = redis_situation, {"removed": tracked(queue=queue)}
    situation.beat(entries, trouble="claimed killed")
    slot = situation.until_noted("claimed", "removed")["slot"]
    two_pods(situation, queue, {"kept": tracked(queue=queue)})

    # more than a lease and two heartbeats
    situation.until_more_ran("kept", slots=4)
    assert [a["attempt"] for a in situation.history("removed", slot)] == [1]
    assert situation.ran("removed") == []

    situation.beat(entries)
    situation.until_ran("removed", lambda ran: any(body["slot"] == slot for body in ran))
    assert [body["attempt"] for body in situation.ran_for("removed", slot)] == [2]


def test_an_edited_job_does_not_fire_for_the_past_of_its_new_text(
    redis_situation: Situation, queue: str
) -> None:
    situation, kept = redis_situation, {"kept": tracked(queue=queue)}
    hence = datetime.now(UTC) + timedelta(hours=3)  # noqa: TID251
    old = two_pods(situation, queue, {**kept, "edited": tracked(queue=queue, every=rarely(hence))})
    situation.until_more_ran("kept", slots=1)
    # while the job was known, with its old text
    ago = datetime.now(UTC)  # noqa: TID251
    situation.until_more_ran("kept", slots=1)

    two_pods(situation, queue, {**kept, "edited": tracked(queue=queue, every=rarely(ago))})
    situation.until_more_ran("kept", slots=2)
    assert [pod.end() for pod in old] == [0, 0]
    situation.until_more_ran("kept", slots=3)

    assert situation.ran("edited") == []
    assert situation.history("edited") == []
    assert once_each(situation.ran("kept"))


def rarely(at: datetime) -> dict[str, str]:
    """Return a schedule with a slot at this moment, and none in the hours around it."""
    return {"interval": "6h", "anchor": at.isoformat(timespec="milliseconds")}
