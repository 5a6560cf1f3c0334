"""What becomes of a message of Dramatiq's while the store cannot say whether it may start."""

import dramatiq
import pytest

from anarchon.run import OnStoreError, RunState
from tests.celery.tracked import TestStore
from tests.dramatiq.bench import Hooks, Switched
from tests.dramatiq.conftest import Make


def test_a_copy_is_sent_for_later_and_starts_then(
    make: Make, store: TestStore, switched: Switched
) -> None:
    said = store.publishable(lease=1)
    hooks = Hooks()
    bench = make(switched, hooks)
    actor = bench.actor(lambda: "done")
    switched.is_on = False
    bench.start()

    sent = bench.send(actor, said)
    while hooks.seen != ["before_enqueue", "before_enqueue", "after_skip", "before_ack"]:
        store.nap(0.02)
    assert bench.bodies == []
    switched.is_on = True

    end = store.end_of(said)
    assert (end.state, end.attempt) == (RunState.SUCCESS, 1)
    assert [body["retries"] for body in bench.bodies] == [0]
    bench.settle()
    assert bench.results.get_result(sent) == "done"


def test_it_starts_all_the_same_where_the_message_says_so(
    make: Make, store: TestStore, switched: Switched
) -> None:
    said = store.publishable(lease=1, on_store_error=OnStoreError.RUN)
    bench = make(switched)
    actor = bench.actor(lambda: bench.release.wait(20))
    switched.is_on = False
    bench.start()

    bench.send(actor, said)
    assert bench.entered.wait(20)
    switched.is_on = True
    store.until(said, lambda attempt: attempt.state is RunState.RUNNING)
    bench.release.set()

    end = store.end_of(said)
    assert (end.state, end.detail) == (RunState.SUCCESS, "started without the store's word")


def test_its_retry_outlives_the_age_limit_that_is_about_the_start(
    make: Make, store: TestStore, switched: Switched
) -> None:
    said = store.publishable(lease=1, on_store_error=OnStoreError.RUN)
    bench = make(switched)
    actor = bench.actor(bench.raising(dramatiq.errors.Retry("later", delay=4_000)))
    switched.is_on = False
    bench.start()

    bench.send(actor, {**said, "max_age": None}, max_age=3_500)
    while len(bench.bodies) + len(bench.broker.dead_letters) < 2:
        store.nap(0.05)
    switched.is_on = True

    assert store.end_of(said).state is RunState.SUCCESS
    assert [body["retries"] for body in bench.bodies] == [0, 1]


def test_it_does_not_start_past_its_start_deadline(
    make: Make, store: TestStore, switched: Switched
) -> None:
    said = store.publishable(lease=1, start_within=1, on_store_error=OnStoreError.RUN)
    bench = make(switched)
    actor = bench.actor(lambda: None)
    switched.is_on = False
    bench.send(actor, {**said, "max_age": None}, max_age=1)
    store.nap(1.1)

    bench.start()
    while not (bench.broker.dead_letters or bench.bodies):
        store.nap(0.05)
    switched.is_on = True

    assert store.until_overdue(said).state is RunState.EXPIRED
    assert bench.bodies == []


def test_a_copy_after_a_lost_answer_leaves_the_run_to_a_takeover(
    make: Make, store: TestStore, switched: Switched
) -> None:
    said = store.publishable(lease=1)
    bench = make(switched)
    actor = bench.actor(lambda: "done")
    switched.loses_answers = True
    bench.start()

    bench.send(actor, said)
    again = store.until_taken_over(said)
    switched.loses_answers = False
    bench.settle()
    assert bench.bodies == []
    bench.send(actor, again)

    end = store.end_of(said)
    assert (end.state, end.attempt) == (RunState.SUCCESS, 2)


def test_a_store_that_refused_to_answer_is_asked_anew(
    make: Make, store: TestStore, switched: Switched
) -> None:
    said = store.publishable(on_store_error=OnStoreError.RUN)
    bench = make(switched)
    actor = bench.actor(lambda: None)
    switched.refusals = 1
    bench.start()

    bench.send(actor, said)

    end = store.end_of(said)
    assert (end.state, end.detail) == (RunState.SUCCESS, "started without the store's word")


def test_it_starts_where_no_copy_can_be_sent(
    make: Make,
    store: TestStore,
    switched: Switched,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = store.publishable(lease=1)
    bench = make(switched)
    actor = bench.actor(lambda: bench.release.wait(20))
    switched.is_on = False
    bench.start()
    bench.send(actor, said)
    monkeypatch.setattr(bench.broker, "enqueue", _lost)

    assert bench.entered.wait(20)
    switched.is_on = True
    bench.release.set()

    assert store.end_of(said).state is RunState.SUCCESS


def _lost(*_: object, **__: object) -> None:
    raise dramatiq.errors.ConnectionClosed("gone")
