"""The instance that won a slot is frozen, or dies, or cannot reach the broker."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.celery.situations.conftest import BROKERS, ON_BROKERS, a_situation, address_of
from tests.celery.situations.fleet import Situation, once_each, tracked, until
from tests.servers import ServersForTests
from tests.servers.process import Server

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(180),
    pytest.mark.xdist_group("celery-situations-of-publishers"),
]


def test_a_winner_frozen_before_the_send_starts_nothing_when_it_thaws(
    situation: Situation, queue: str
) -> None:
    """Where it looks at its lease once more it sends nothing; else the worker refuses it."""
    entries = {"job": tracked(queue=queue)}
    worker = situation.worker(queue)
    frozen = situation.beat(entries, trouble="claimed frozen")
    slot = situation.until_noted("claimed", "job")["slot"]
    situation.beat(entries)
    situation.until_ran("job", lambda ran: any(body["slot"] == slot for body in ran))

    frozen.send(signal.SIGCONT)
    refused = f"not started: job=job slot={slot} attempt=1"
    until(
        lambda: "lease_lost job=job" in frozen.log or refused in worker.log,
        lambda: f"{frozen.log}\n{worker.log}",
    )
    situation.until_more_ran("job")

    assert [body["attempt"] for body in situation.ran_for("job", slot)] == [2]
    assert [a["state"] for a in situation.history("job", slot)] == ["lost", "success"]
    assert once_each(situation.ran("job"))


def test_a_winner_frozen_after_the_send_has_its_run_ended_by_the_worker(
    situation: Situation, queue: str
) -> None:
    entries = {"job": tracked(queue=queue)}
    situation.worker(queue)
    frozen = situation.beat(entries, trouble="sent frozen")
    slot = situation.until_noted("sent", "job")["slot"]
    situation.until_ran("job", lambda ran: any(body["slot"] == slot for body in ran))
    situation.beat(entries)
    # two of them are longer than the lease
    situation.until_more_ran("job", slots=2)

    frozen.send(signal.SIGCONT)
    situation.until_more_ran("job")

    assert [body["attempt"] for body in situation.ran_for("job", slot)] == [1]
    assert [a["state"] for a in situation.history("job", slot)] == ["success"]
    assert once_each(situation.ran("job"))


def test_a_message_that_could_not_be_marked_is_refused_once_it_was_sent_again(
    situation: Situation, queue: str
) -> None:
    entries = {"job": tracked(queue=queue)}
    frozen = situation.beat(entries, trouble="sent frozen")
    slot = situation.until_noted("sent", "job")["slot"]
    situation.beat(entries)
    situation.until_told("job", slot, lambda told: [a["state"] for a in told][1:] == ["queued"])

    worker = situation.worker(queue)
    worker.until_says(f"not started: job=job slot={slot} attempt=1")
    frozen.send(signal.SIGCONT)
    situation.until_more_ran("job")

    assert [body["attempt"] for body in situation.ran_for("job", slot)] == [2]
    assert [a["state"] for a in situation.history("job", slot)] == ["lost", "success"]
    assert once_each(situation.ran("job"))


def test_a_winner_killed_before_the_send_is_replaced(situation: Situation, queue: str) -> None:
    entries = {"job": tracked(queue=queue)}
    situation.worker(queue)
    situation.beat(entries, trouble="claimed killed")
    slot = situation.until_noted("claimed", "job")["slot"]

    situation.beat(entries)
    situation.until_ran("job", lambda ran: any(body["slot"] == slot for body in ran))
    situation.until_more_ran("job")

    assert [body["attempt"] for body in situation.ran_for("job", slot)] == [2]
    assert [a["state"] for a in situation.history("job", slot)] == ["lost", "success"]
    assert once_each(situation.ran("job"))


def test_a_winner_killed_after_the_send_is_not_replaced(situation: Situation, queue: str) -> None:
    entries = {"job": tracked(queue=queue)}
    situation.worker(queue)
    situation.beat(entries, trouble="sent killed")
    slot = situation.until_noted("sent", "job")["slot"]

    situation.beat(entries)
    situation.until_more_ran("job", slots=4)

    assert [body["attempt"] for body in situation.ran_for("job", slot)] == [1]
    assert [a["state"] for a in situation.history("job", slot)] == ["success"]
    assert once_each(situation.ran("job"))


class TestBrokerAway:
    """The broker is down when a slot comes."""

    @pytest.fixture(params=ON_BROKERS)
    def server(self, request: pytest.FixtureRequest, servers: ServersForTests) -> Iterator[Server]:
        server = servers.start(BROKERS[request.param])
        yield server
        server.stop()

    @pytest.fixture
    def situation(
        self, servers: ServersForTests, server: Server, tmp_path: Path
    ) -> Iterator[Situation]:
        yield from a_situation(servers, address_of(server), tmp_path)

    def test_a_slot_that_it_missed_has_failed_and_the_next_ones_go_on(
        self, situation: Situation, server: Server, queue: str
    ) -> None:
        entries = {"job": tracked(queue=queue)}
        situation.worker(queue)
        beat = situation.beat(entries)
        situation.until_more_ran("job")

        server.stop()
        until(lambda: bool(failed(situation)), situation.logs)
        server.start()
        situation.until_more_ran("job")

        assert once_each(situation.ran("job"))
        for slot in failed(situation):
            assert situation.ran_for("job", slot) == []
        assert "not published; tried again until it is, or too late" in beat.log

    def test_a_slot_that_it_came_back_for_runs_once(
        self, situation: Situation, server: Server, queue: str
    ) -> None:
        entries = {"job": tracked(queue=queue, every=3600.0, run_at_start=True)}
        situation.worker(queue)
        server.stop()
        beat = situation.beat(entries)

        beat.until_says("not published; tried again until it is, or too late")
        server.start()
        situation.until_ran("job", bool)

        slot = situation.ran("job")[0]["slot"]
        situation.until_told("job", slot, lambda told: told[-1]["state"] == "success")
        assert len(situation.ran_for("job", slot)) == 1


def failed(situation: Situation) -> list[str]:
    """Return the slots that were not published in time."""
    return [
        attempt["slot"]
        for attempt in situation.history("job")
        if attempt["state"] == "failed" and "not published in time" in attempt["detail"]
    ]
