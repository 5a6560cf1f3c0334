"""What happens to a worker, its children and its messages, and what becomes of the runs."""

from typing import Any

import pytest

from tests.celery.situations.fleet import Situation, once_each, tracked

#: Redis gives back what nobody has acknowledged for a second, however alive its worker is.
IMPATIENT: dict[str, Any] = {
    "broker_transport_options": {
        "visibility_timeout": 1,
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 1,
    }
}

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(180),
    pytest.mark.xdist_group("celery-situations-of-workers"),
]


def test_a_message_that_is_in_the_queue_twice_starts_one_of_them(
    situation: Situation, queue: str
) -> None:
    situation.beat({"job": tracked(queue=queue)})
    slot = situation.waiting(queue).repeat(2)["anarchon"]["slot"]

    worker = situation.worker(queue)
    worker.until_says(f"not started: job=job slot={slot} attempt=1")
    situation.until_more_ran("job")

    assert len(situation.ran_for("job", slot)) == 1
    assert [a["state"] for a in situation.history("job", slot)] == ["success"]
    assert once_each(situation.ran("job"))


def test_a_message_that_comes_again_while_it_is_worked_on_is_refused(
    redis_situation: Situation, queue: str
) -> None:
    situation = redis_situation
    entry = tracked("take-long-first", queue=queue, task="situated.late_ack")
    worker = situation.worker(queue, **IMPATIENT)
    situation.beat({"job": entry})
    situation.until_ran("job", bool)
    slot = situation.ran("job")[0]["slot"]

    worker.until_says(f"not started: job=job slot={slot} attempt=1")
    told = situation.until_told("job", slot, lambda told: told[-1]["state"] != "running")

    assert [a["state"] for a in told] == ["success"]
    assert len(situation.ran_for("job", slot)) == 1


def test_the_run_of_a_worker_that_is_killed_is_done_by_another(
    situation: Situation, queue: str
) -> None:
    situation.beat({"job": tracked("hang-first", queue=queue)})
    killed = situation.worker(queue)
    situation.until_ran("job", bool)
    slot = situation.ran("job")[0]["slot"]

    killed.kill()
    situation.worker(queue)
    told = situation.until_told("job", slot, lambda told: told[-1]["state"] == "success")
    situation.until_more_ran("job")

    assert [a["state"] for a in told] == ["lost", "success"]
    assert [body["attempt"] for body in situation.ran_for("job", slot)] == [1, 2]
    assert told[0]["worker"] != told[1]["worker"]


def test_a_message_that_outlives_its_worker_is_refused_and_left_to_a_takeover(
    situation: Situation, queue: str
) -> None:
    entry = tracked("hang-first", queue=queue, task="situated.late_ack")
    situation.beat({"job": entry})
    killed = situation.worker(queue, **IMPATIENT)
    situation.until_ran("job", bool)
    slot = situation.ran("job")[0]["slot"]

    killed.kill()
    worker = situation.worker(queue, **IMPATIENT)
    worker.until_says(f"not started: job=job slot={slot} attempt=1")
    told = situation.until_told("job", slot, lambda told: told[-1]["state"] == "success")

    assert [a["state"] for a in told] == ["lost", "success"]
    assert [body["attempt"] for body in situation.ran_for("job", slot)] == [1, 2]


def test_a_run_of_one_attempt_is_lost_with_its_worker_and_the_next_slots_go_on(
    redis_situation: Situation, queue: str
) -> None:
    situation = redis_situation
    situation.beat({"job": tracked("hang-first", queue=queue, max_attempts=1, overlap="skip")})
    killed = situation.worker(queue)
    situation.until_ran("job", bool)
    slot = situation.ran("job")[0]["slot"]

    killed.kill()
    situation.until_told("job", slot, lambda told: told[-1]["state"] == "lost")
    situation.worker(queue)
    situation.until_more_ran("job")

    assert once_each(situation.ran("job"))


def test_a_run_that_reaches_its_hard_limit_has_failed_and_is_not_repeated(
    situation: Situation, queue: str
) -> None:
    situation.worker(queue)
    situation.beat({"job": tracked("hang", queue=queue, options={"time_limit": 1})})

    situation.until_more_ran("job", slots=4)

    assert once_each(situation.ran("job"))
    slots = sorted(body["slot"] for body in situation.ran("job"))
    for slot in slots[:2]:
        (attempt,) = situation.history("job", slot)
        assert attempt["state"] == "failed"
        assert "TimeLimitExceeded(1" in attempt["detail"]


def test_a_run_whose_child_is_killed_has_failed_and_is_not_repeated(
    situation: Situation, queue: str
) -> None:
    situation.worker(queue)
    situation.beat({"job": tracked("die", queue=queue)})

    situation.until_more_ran("job", slots=4)

    assert once_each(situation.ran("job"))
    slots = sorted(body["slot"] for body in situation.ran("job"))
    for slot in slots[:2]:
        (attempt,) = situation.history("job", slot)
        assert attempt["state"] == "failed"
        assert "WorkerLostError" in attempt["detail"]


def test_a_retry_without_a_countdown_is_the_same_attempt(situation: Situation, queue: str) -> None:
    situation.worker(queue)
    situation.beat({"job": tracked("retry", queue=queue)})

    situation.until_more_ran("job", slots=4)

    slots = sorted({body["slot"] for body in situation.ran("job")})
    for slot in slots[:3]:
        (attempt,) = situation.history("job", slot)
        bodies = situation.ran_for("job", slot)
        assert attempt["state"] == "success"
        assert [(body["attempt"], body["retries"]) for body in bodies] == [(1, 0), (1, 1)]


def test_a_message_that_expired_in_the_queue_ends_its_run_unstarted(
    situation: Situation, queue: str
) -> None:
    situation.beat({"job": tracked(queue=queue, start_within="3s")})
    slot = situation.until_published("job")
    situation.until_told("job", slot, lambda told: told[-1]["state"] == "expired")

    situation.worker(queue)
    situation.until_more_ran("job")

    assert situation.ran_for("job", slot) == []
    assert once_each(situation.ran("job"))


def test_a_worker_without_the_integration_does_the_work_and_its_run_expires(
    redis_situation: Situation, queue: str
) -> None:
    situation = redis_situation
    situation.worker(queue, plain=True)
    situation.beat({"job": tracked(queue=queue, start_within="3s")})

    situation.until_ran("job", lambda ran: len(ran) >= 4)

    slot = situation.history("job")[0]["slot"]
    told = situation.until_told("job", slot, lambda told: told[-1]["state"] == "expired")
    assert [a["attempt"] for a in told] == [1]
