"""How a run ends, for each order in which dramatiq calls the hooks of a message."""

import threading

import dramatiq
import pytest
from dramatiq.middleware import Shutdown, SkipMessage
from dramatiq.middleware.threading import Interrupt

from anarchon.run import RunState
from tests.celery.tracked import TestStore
from tests.dramatiq.bench import Bench, Hooks, declare
from tests.dramatiq.conftest import Make


def test_a_message_that_succeeds_ends_its_run(bench: Bench, store: TestStore) -> None:
    said = store.publishable()
    actor = bench.actor(lambda: {"sold": 3}, anarchon_result=True)
    bench.start()

    sent = bench.send(actor, said)

    end = store.end_of(said)
    assert (end.state, end.attempt, end.detail) == (RunState.SUCCESS, 1, '{"sold": 3}')
    assert end.message == sent.message_id
    assert [body["run"].job for body in bench.bodies] == [said["job"]]
    assert bench.bodies[0]["run"].fence == said["fence"]


def test_a_result_is_kept_only_where_the_actor_says_so(bench: Bench, store: TestStore) -> None:
    said = store.publishable()
    actor = bench.actor(lambda: "secret")
    bench.start()

    bench.send(actor, said)

    assert store.end_of(said).detail is None


def test_a_message_that_comes_twice_starts_once_and_keeps_its_result(
    make: Make, store: TestStore
) -> None:
    hooks = Hooks()
    bench = make(store.url, hooks)
    said = store.publishable()
    actor = bench.actor(lambda: "first")
    bench.start()

    sent = bench.send(actor, said)
    bench.settle()
    bench.broker.enqueue(sent)
    bench.settle()

    assert len(bench.bodies) == 1
    assert bench.results.get_result(sent) == "first"
    assert bench.broker.dead_letters == []
    assert hooks.seen[-3:] == ["before_enqueue", "after_skip", "before_ack"]
    assert store.end_of(said).state is RunState.SUCCESS


def test_a_message_that_comes_again_while_it_runs_is_skipped(
    bench: Bench, store: TestStore
) -> None:
    said = store.publishable()
    actor = bench.actor(lambda: bench.release.wait(20))
    bench.start()
    sent = bench.send(actor, said)
    assert bench.entered.wait(20)

    again = Hooks()
    bench.broker.add_middleware(again)
    bench.broker.enqueue(sent)
    while "before_ack" not in again.seen:
        store.nap(0.05)
    bench.release.set()

    assert store.end_of(said).state is RunState.SUCCESS
    assert len(bench.bodies) == 1


def test_a_message_that_a_takeover_has_overtaken_is_skipped(bench: Bench, store: TestStore) -> None:
    old = store.publishable(lease=0.2, queued=False)
    new = store.until_taken_over(old)
    actor = bench.actor(lambda: None)
    bench.start()

    bench.send(actor, old)
    bench.settle()
    fresh = bench.send(actor, new)

    assert store.end_of(old).message == fresh.message_id
    assert [body["run"].attempt for body in bench.bodies] == [2]


def test_a_message_past_its_age_does_not_begin_its_run(bench: Bench, store: TestStore) -> None:
    said = store.publishable(start_within=2)
    actor = bench.actor(lambda: None, max_age=1)
    bench.send(actor, said)
    store.nap(0.05)

    bench.start()
    bench.settle()
    (left,) = store.attempts(said)
    end = store.until_overdue(said)

    assert (left.state, end.state) == (RunState.QUEUED, RunState.EXPIRED)
    assert bench.bodies == []
    assert len(bench.broker.dead_letters) == 1


def test_a_retry_past_its_age_ends_its_run_as_failed(bench: Bench, store: TestStore) -> None:
    said = store.publishable()
    actor = bench.actor(bench.raising(dramatiq.errors.Retry("later", delay=1_500)), max_age=1_000)
    bench.start()

    sent = bench.send(actor, said)

    end = store.end_of(said)
    assert (end.state, end.message) == (RunState.FAILED, sent.message_id)
    assert end.detail == "skipped by a middleware: Message age limit exceeded"
    assert len(bench.bodies) == 1


def test_a_message_that_another_skips_ends_its_run(make: Make, store: TestStore) -> None:
    bench = make(store.url, Hooks(before_process=_skip))
    said = store.publishable()
    actor = bench.actor(lambda: None)
    bench.start()

    bench.send(actor, said)

    end = store.end_of(said)
    assert (end.state, end.detail) == (RunState.FAILED, "skipped by a middleware")


def test_a_message_that_a_middleware_fails_without_a_word_has_failed(
    make: Make, store: TestStore
) -> None:
    bench = make(store.url, Hooks(before_process=lambda message: message.fail()))
    said = store.publishable()
    actor = bench.actor(lambda: None)
    bench.start()

    bench.send(actor, said)

    end = store.end_of(said)
    assert (end.state, end.detail) == (RunState.FAILED, "failed by a middleware")
    assert bench.bodies == []


def test_a_retry_goes_on_as_the_same_attempt(bench: Bench, store: TestStore) -> None:
    said = store.publishable()
    actor = bench.actor(bench.raising(ValueError("not yet"), times=2))
    bench.start()

    sent = bench.send(actor, said)

    end = store.end_of(said)
    assert (end.state, end.attempt, end.message) == (RunState.SUCCESS, 1, sent.message_id)
    assert [body["retries"] for body in bench.bodies] == [0, 1, 2]
    assert {body["run"].attempt for body in bench.bodies} == {1}
    assert len(store.attempts(said)) == 1


def test_a_retry_outlives_the_age_limit_that_is_about_the_start(
    bench: Bench, store: TestStore
) -> None:
    said = store.publishable()
    actor = bench.actor(bench.raising(dramatiq.errors.Retry("later", delay=1_500)))
    bench.start()

    bench.send(actor, {**said, "max_age": None}, max_age=1_000)

    assert store.end_of(said).state is RunState.SUCCESS
    assert ["max_age" in body["options"] for body in bench.bodies] == [False, False]


def test_a_retry_has_the_age_limit_that_was_written_for_the_message(
    bench: Bench, store: TestStore
) -> None:
    said = store.publishable()
    actor = bench.actor(bench.raising(ValueError("not yet")))
    bench.start()

    bench.send(actor, {**said, "max_age": 90_000}, max_age=1_000)

    assert store.end_of(said).state is RunState.SUCCESS
    assert [body["options"]["max_age"] for body in bench.bodies] == [90_000, 90_000]


def test_a_run_waits_while_its_retry_does(bench: Bench, store: TestStore) -> None:
    said = store.publishable(lease=1)
    actor = bench.actor(bench.raising(dramatiq.errors.Retry("later", delay=2_500)))
    bench.start()

    bench.send(actor, said)

    store.until(said, lambda attempt: attempt.state is RunState.QUEUED)
    store.nap(1.2)
    assert store.taken_over(said) is None, "longer than its lease, and not taken over"
    assert store.end_of(said).state is RunState.SUCCESS


def test_an_older_message_is_skipped_once_its_retry_was_sent(
    bench: Bench, store: TestStore
) -> None:
    said = store.publishable()
    actor = bench.actor(bench.raising(dramatiq.errors.Retry("later", delay=1_500)))
    bench.start()
    sent = bench.send(actor, said)
    store.until(said, lambda attempt: attempt.state is RunState.QUEUED)

    bench.broker.enqueue(sent)

    assert store.end_of(said).state is RunState.SUCCESS
    assert [body["retries"] for body in bench.bodies] == [0, 1]


def test_retries_that_are_exhausted_end_the_run_as_failed(bench: Bench, store: TestStore) -> None:
    said = store.publishable()
    actor = bench.actor(bench.raising(ValueError("no such thing"), times=9), max_retries=1)
    bench.start()

    bench.send(actor, said)

    end = store.end_of(said)
    assert (end.state, end.attempt) == (RunState.FAILED, 1)
    assert end.detail == "ValueError('no such thing')"
    assert len(bench.bodies) == 2
    bench.settle()
    assert len(bench.broker.dead_letters) == 1


def test_an_error_that_an_actor_throws_ends_the_run_as_failed(
    bench: Bench, store: TestStore
) -> None:
    said = store.publishable()
    actor = bench.actor(bench.raising(ValueError("meant so")), throws=ValueError)
    bench.start()

    bench.send(actor, said)

    assert store.end_of(said).state is RunState.FAILED
    assert len(bench.bodies) == 1


def test_a_retry_that_cannot_be_sent_ends_the_run_as_failed(
    bench: Bench, store: TestStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = store.publishable()

    def lose_the_broker() -> None:
        # of no matter to this one, whatever its options say
        other.send_with_options(retries=1)
        monkeypatch.setattr(bench.broker, "enqueue", _lost)
        raise ValueError("not yet")

    other = declare(bench.broker, lambda: None, actor_name="other")
    actor = bench.actor(lose_the_broker)
    bench.start()

    bench.send(actor, said)

    end = store.end_of(said)
    assert end.state is RunState.FAILED
    assert (end.detail or "").startswith("its retry could not be sent: ")


def test_a_time_limit_is_an_error_like_any_other(bench: Bench, store: TestStore) -> None:
    said = store.publishable()
    actor = bench.actor(_busily, time_limit=200, max_retries=1)
    bench.start()

    bench.send(actor, said)

    end = store.end_of(said)
    assert end.state is RunState.FAILED
    assert "TimeLimitExceeded" in (end.detail or "")
    assert len(bench.bodies) == 2


def test_a_shutdown_sends_the_run_on_with_its_retry(bench: Bench, store: TestStore) -> None:
    said = store.publishable()
    actor = bench.actor(bench.raising(Shutdown(), times=1))
    bench.start()

    bench.send(actor, said)

    assert store.end_of(said).state is RunState.SUCCESS
    assert [body["retries"] for body in bench.bodies] == [0, 1]


def test_a_shutdown_without_retries_leaves_the_run_to_a_takeover(
    bench: Bench, store: TestStore
) -> None:
    said = store.publishable(lease=1)
    actor = bench.actor(bench.raising(Shutdown(), times=1), max_retries=0)
    bench.start()

    bench.send(actor, said)
    bench.settle()
    assert store.attempts(said)[0].state is RunState.RUNNING
    again = store.until_taken_over(said)
    bench.send(actor, again)

    end = store.end_of(said)
    assert (end.state, end.attempt) == (RunState.SUCCESS, 2)


def test_what_interrupts_the_end_of_a_success_changes_nothing(
    bench: Bench, store: TestStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = store.publishable()
    actor = bench.actor(lambda: "done")
    bench.start()
    bench.ours.before_process_message(bench.broker, _nobody(bench))
    tracker = bench.ours._followed().tracker
    finish, calls = tracker.finish, []

    def interrupted(*arguments: object, **more: object) -> object:
        calls.append(arguments)
        if len(calls) == 1:
            raise Interrupt
        return finish(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(tracker, "finish", interrupted)

    bench.send(actor, said)

    assert store.end_of(said).state is RunState.SUCCESS
    bench.settle()
    assert len(bench.bodies) == 1


def test_a_lease_is_renewed_as_long_as_the_actor_works(bench: Bench, store: TestStore) -> None:
    said = store.publishable(lease=1)
    actor = bench.actor(lambda: bench.release.wait(20))
    bench.start()
    bench.send(actor, said)
    assert bench.entered.wait(20)

    store.nap(2.5)
    assert store.taken_over(said) is None
    bench.release.set()

    end = store.end_of(said)
    assert (end.state, end.attempt) == (RunState.SUCCESS, 1)


def test_a_worker_that_has_stopped_leaves_no_thread_behind(bench: Bench, store: TestStore) -> None:
    said = store.publishable()
    actor = bench.actor(lambda: None)
    bench.start()
    bench.send(actor, said)
    assert store.end_of(said).state is RunState.SUCCESS

    bench.stop()

    ours = [t.name for t in threading.enumerate() if t.name.startswith("anarchon-")]
    assert ours == []


def test_an_actor_that_is_a_coroutine_knows_its_run(bench: Bench, store: TestStore) -> None:
    from anarchon_dramatiq import current_run

    said = store.publishable()

    async def act() -> str:
        run = current_run()
        return "" if run is None else run.job

    actor = declare(bench.broker, act, store_results=True, anarchon_result=True)
    bench.start()

    bench.send(actor, said)

    assert store.end_of(said).detail == f'"{said["job"]}"'


def test_the_run_is_forgotten_before_the_next_message(bench: Bench, store: TestStore) -> None:
    said = store.publishable()
    actor = bench.actor(lambda: None)
    bench.start()

    for each in (said, None, None, None):
        bench.send(actor, each)
        bench.settle()

    assert [body["run"] is None for body in bench.bodies] == [False, True, True, True]


@pytest.mark.parametrize("said", ["text", {"job": "x"}], ids=repr)
def test_an_option_that_is_not_ours_is_warned_of(
    bench: Bench, said: object, caplog: pytest.LogCaptureFixture
) -> None:
    actor = bench.actor(lambda: None)
    bench.start()

    for _ in range(2):
        bench.send(actor, said)
        bench.settle()

    assert [body["run"] for body in bench.bodies] == [None, None]
    assert caplog.text.count("is not ours") == 1


def test_a_run_of_another_namespace_starts_and_is_warned_of(
    bench: Bench, store: TestStore, caplog: pytest.LogCaptureFixture
) -> None:
    actor = bench.actor(lambda: None)
    bench.start()

    bench.send(actor, {**store.publishable(), "namespace": "staging"})
    bench.settle()

    assert [body["run"] for body in bench.bodies] == [None]
    assert "'staging'" in caplog.text


def _skip(message: object) -> None:
    raise SkipMessage("not today")


def _lost(*_: object, **__: object) -> None:
    raise dramatiq.errors.ConnectionClosed("gone")


def _busily() -> None:
    for _ in range(400):
        threading.Event().wait(0.05)


def _nobody(bench: Bench) -> object:
    actor = next(iter(bench.broker.actors.values()))
    return dramatiq.MessageProxy(actor.message())
