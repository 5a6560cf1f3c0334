"""What one message holds, on a broker in this process."""

import copy
import dataclasses
import logging
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from celery import Celery, beat, signals
from celery.beat import BeatLazyFunc
from kombu import Queue
from kombu.transport.memory import Channel

from anarchon import At
from anarchon.message import run_of
from anarchon.run import OnStoreError, Tracking
from anarchon_celery.beat_sender import NotSent
from anarchon_celery.publisher import CeleryPublisher
from anarchon_celery.scheduling import entries_of, scheduler_of
from tests.celery.runs import SLOT, publisher_of, run, taken


def test_the_message_asks_for_the_task_with_its_arguments(app: Celery) -> None:
    publisher = publisher_of(app, args=[1, "b"], kwargs={"who": "me"})

    sent = publisher.publish(run())

    message = taken(app)
    assert publisher.task == "proj.note"
    assert (message.headers["task"], message.headers["id"]) == ("proj.note", sent)
    assert message.payload[:2] == [[1, "b"], {"who": "me"}]


def test_the_headers_tell_the_run(app: Celery) -> None:
    publisher_of(app).publish(run("job", attempt=2, token="abc"))

    headers = taken(app).headers
    assert headers["anarchon"] == {
        "namespace": "proj",
        "job": "job",
        "slot": "2026-11-29T12:00:10.000Z",
        "attempt": 2,
        "token": "abc",
        "fence": 1_795_000_000_000,
    }
    assert headers["periodic_task_name"] == "job"
    assert headers["celery_beat_task"] is True


@pytest.mark.parametrize("headers", [None, {}, {"trace": "x"}], ids=repr)
@pytest.mark.parametrize("task", ["proj.note", "nobody.knows"])
def test_the_users_headers_are_sent_and_stay_as_they_are(
    app: Celery, headers: dict[str, Any] | None, task: str
) -> None:
    before = copy.deepcopy(headers)
    publisher = publisher_of(app, task=task, options={"headers": headers})

    for _ in range(2):
        publisher.publish(run())

    assert taken(app).headers.items() >= (headers or {}).items()
    assert app.conf.beat_schedule["job"]["options"] == {"headers": before}


def test_each_message_has_an_id_of_its_own(app: Celery) -> None:
    publisher = publisher_of(app)

    assert publisher.publish(run()) != publisher.publish(run())


def test_what_a_message_needs_is_declared_before_the_first_and_not_looked_at_again(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = publisher_of(app)
    publisher.publish(run())
    bound: list[object] = []
    monkeypatch.setattr(Queue, "bind", lambda queue, channel: bound.append(queue))

    publisher.publish(run())

    assert bound == []
    monkeypatch.undo()
    for _ in range(2):
        taken(app)


def test_a_task_id_of_the_users_is_kept(app: Celery) -> None:
    assert publisher_of(app, options={"task_id": "fixed"}).publish(run()) == "fixed"


def test_a_task_that_is_not_registered_here_is_sent_by_name(app: Celery) -> None:
    publisher_of(app, task="nobody.knows", options={"queue": "aside"}).publish(run())

    assert taken(app, "aside").headers["task"] == "nobody.knows"


def test_a_registered_tasks_own_options_and_routes_apply(app: Celery) -> None:
    publisher_of(app, task="proj.placed").publish(run())

    assert taken(app, "aside").headers["expires"] is not None


def test_the_entrys_options_go_before_the_tasks(app: Celery) -> None:
    publisher_of(app, task="proj.placed", options={"queue": "front", "expires": None}).publish(
        run()
    )

    assert taken(app, "front").headers["task"] == "proj.placed"


def test_options_shape_the_message(app: Celery) -> None:
    options = {"priority": 7, "compression": "gzip", "shadow": "another", "time_limit": 9}

    publisher_of(app, options={**options, "serializer": "pickle"}).publish(run())

    message = taken(app)
    assert message.properties["priority"] == 7
    assert message.headers["compression"] == "application/x-gzip"
    assert message.headers["shadow"] == "another"
    assert message.headers["timelimit"] == [9, None]
    assert message.content_type == "application/x-python-serialize"


def test_a_countdown_counts_from_the_send(app: Celery) -> None:
    publisher_of(app, options={"countdown": 600}).publish(run())

    told = datetime.fromisoformat(taken(app).headers["eta"])
    assert timedelta(seconds=500) < told - app.now() <= timedelta(seconds=600)


LATER = datetime(2999, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("expires", "told"),
    [
        (600, SLOT + timedelta(seconds=600)),
        (0.5, SLOT + timedelta(seconds=0.5)),
        ("next", SLOT + timedelta(seconds=50)),
        (LATER, LATER),
        ("2999-01-01T00:00:00+00:00", LATER),
        (None, None),
    ],
    ids=str,
)
def test_a_message_expires_by_its_slot_not_by_its_send(
    app: Celery, expires: Any, told: datetime | None
) -> None:
    publisher_of(app, options={"expires": expires}).publish(run())

    found = taken(app).headers["expires"]
    assert (None if found is None else datetime.fromisoformat(found)) == told


def test_a_message_expires_never_where_no_slot_follows(app: Celery) -> None:
    publisher = publisher_of(app, options={"expires": "next"})
    once = dataclasses.replace(publisher._entry, schedule=At(SLOT))

    CeleryPublisher(publisher._sender, once, publisher._broker).publish(run())

    assert taken(app).headers["expires"] is None


class TestTracked:
    """The message of a run that is followed to its end."""

    TRACKING = Tracking(
        lease=timedelta(seconds=15),
        start_by=SLOT + timedelta(hours=1),
        on_store_error=OnStoreError.RETRY,
        timeout=timedelta(seconds=60),
    )

    def headers(self, app: Celery, tracking: Tracking = TRACKING, **fields: Any) -> dict[str, Any]:
        publisher_of(app, **fields).publish(run(tracking=tracking))
        found: dict[str, Any] = taken(app).headers
        return found

    def test_it_says_what_its_worker_has_to_know(self, app: Celery) -> None:
        told = run_of(self.headers(app)["anarchon"])

        assert told.is_tracked
        assert told.lease == timedelta(seconds=15)

    @pytest.mark.parametrize(
        ("expires", "told"),
        [
            (None, "13:00:10"),
            (60, "12:01:10"),
            (7200, "13:00:10"),
            ("next", "12:01:00"),
            (LATER, "13:00:10"),
            (datetime(2026, 11, 29, 12, 30), "12:30:00"),  # noqa: DTZ001  # UTC to Celery
            ("2026-11-29T12:40:00Z", "12:40:00"),
        ],
        ids=str,
    )
    def test_it_expires_when_nobody_may_begin_it_any_more(
        self, app: Celery, expires: Any, told: str
    ) -> None:
        found = self.headers(app, options={"expires": expires})["expires"]

        assert datetime.fromisoformat(found) == datetime.fromisoformat(f"2026-11-29T{told}Z")

    def test_one_that_is_taken_over_long_after_its_slot_is_not_sent_expired(
        self, app: Celery
    ) -> None:
        later = dataclasses.replace(self.TRACKING, start_by=LATER)
        publisher = publisher_of(app, options={"expires": 60})

        publisher.publish(run(tracking=later, attempt=2, slot=SLOT - timedelta(days=1)))

        found = taken(app).headers["expires"]
        left = datetime.fromisoformat(found) - app.now()
        assert timedelta(seconds=30) < left <= timedelta(seconds=60)

    def test_the_tasks_own_expiry_counts(self, app: Celery) -> None:
        @app.task(name="proj.brief", shared=False, expires=60)
        def brief() -> None: ...

        later = dataclasses.replace(self.TRACKING, start_by=LATER)
        found = self.headers(app, later, task="proj.brief")["expires"]

        left = datetime.fromisoformat(found) - app.now()
        assert timedelta(seconds=30) < left <= timedelta(seconds=60)

    def test_its_timeout_is_the_soft_limit_and_a_third_of_a_lease_later_it_is_killed(
        self, app: Celery
    ) -> None:
        assert self.headers(app)["timelimit"] == [65, 60]

    def test_without_a_timeout_its_limits_are_those_of_the_entry(self, app: Celery) -> None:
        free = dataclasses.replace(self.TRACKING, timeout=None)

        assert self.headers(app, free, options={"time_limit": 9})["timelimit"] == [9, None]

    @pytest.mark.parametrize(
        ("options", "told"),
        [
            ({"soft_time_limit": 20}, [65, 20]),
            ({"soft_time_limit": 200, "time_limit": 300}, [65, 60]),
            ({"time_limit": 62}, [62, 60]),
            ({"time_limit": 30}, [30, 30]),
        ],
        ids=str,
    )
    def test_smaller_limits_of_the_entry_stay(
        self, app: Celery, options: dict[str, Any], told: list[int]
    ) -> None:
        assert self.headers(app, options=options)["timelimit"] == told

    def test_smaller_limits_of_the_task_stay(self, app: Celery) -> None:
        @app.task(name="proj.brief", shared=False, time_limit=30, soft_time_limit=25)
        def brief() -> None: ...

        assert self.headers(app, task="proj.brief")["timelimit"] == [30, 25]

    def test_smaller_limits_of_the_app_stay_for_a_task_it_does_not_know(self, app: Celery) -> None:
        app.conf.task_time_limit = 40

        assert self.headers(app, task="nobody.knows")["timelimit"] == [40, 40]


class TestPatched:
    """Others replace `celery.beat.Scheduler.apply_entry`, as Sentry and Datadog do."""

    def test_they_may_change_the_entry_of_one_message(
        self, app: Celery, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        numbers = iter("12")
        usual = beat.Scheduler.apply_entry

        def patched(scheduler: beat.Scheduler, entry: Any, producer: Any) -> None:
            headers = entry.options.pop("headers")
            headers[f"trace-{next(numbers)}"] = entry.schedule.run_every.total_seconds()
            headers["nested"].clear()
            entry.options["headers"] = headers
            entry.kwargs["who"] = "them"
            usual(scheduler, entry, producer=producer)

        monkeypatch.setattr(beat.Scheduler, "apply_entry", patched)
        publisher = publisher_of(app, options={"headers": {"nested": {"a": 1}}}, kwargs={})
        publisher.publish(run())
        publisher.publish(run())

        first, second = taken(app), taken(app)
        assert (first.headers["trace-1"], second.headers["trace-2"]) == (60, 60)
        assert "trace-1" not in second.headers
        assert first.payload[1] == {"who": "them"}
        assert app.conf.beat_schedule["job"]["options"] == {"headers": {"nested": {"a": 1}}}

    def test_one_that_fails_after_the_send_sends_nothing_twice(
        self, app: Celery, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        usual = beat.Scheduler.apply_entry

        def patched(scheduler: beat.Scheduler, entry: Any, producer: Any) -> None:
            usual(scheduler, entry, producer=producer)
            raise ValueError("its own fault")

        monkeypatch.setattr(beat.Scheduler, "apply_entry", patched)

        sent = publisher_of(app).publish(run())

        assert taken(app).headers["id"] == sent
        assert "its own fault" in caplog.text

    def test_one_that_sends_nothing_is_an_error(
        self, app: Celery, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(beat.Scheduler, "apply_entry", lambda *_, **__: None)

        with pytest.raises(NotSent):
            publisher_of(app).publish(run())


def test_lazy_arguments_are_evaluated_for_each_message(app: Celery) -> None:
    counter = iter(range(10))
    lazy = BeatLazyFunc(next, counter)
    publisher = publisher_of(app, args=[lazy, [lazy]][:1], kwargs={"n": lazy})

    publisher.publish(run())
    publisher.publish(run())

    assert taken(app).payload[:2] == [[0], {"n": 1}]
    assert taken(app).payload[:2] == [[2], {"n": 3}]


def test_a_lazy_argument_that_raises_sends_nothing(app: Celery) -> None:
    publisher = publisher_of(app, args=[BeatLazyFunc(int, "x")])

    with pytest.raises(ValueError, match="invalid literal"):
        publisher.publish(run())

    assert not any(queue.qsize() for queue in Channel.queues.values())


def test_arguments_the_task_cannot_take_are_an_error(app: Celery) -> None:
    @app.task(name="proj.none", shared=False)
    def none() -> None: ...

    with pytest.raises(TypeError):
        publisher_of(app, task="proj.none", args=[1]).publish(run())


def test_a_message_follows_one_that_could_not_be_sent(app: Celery) -> None:
    odd = publisher_of(app, args=[object()])
    with pytest.raises(Exception, match="not JSON serializable"):
        odd.publish(run())

    good = publisher_of(app)
    good._broker = odd._broker
    sent = good.publish(run())

    assert taken(app).headers["id"] == sent


def test_the_signals_of_publishing_are_sent(app: Celery) -> None:
    seen: list[str] = []

    def before(sender: str, headers: dict[str, Any], **_: Any) -> None:
        headers["traced"] = "yes"
        seen.append(f"before {sender}")

    def after(sender: str, **_: Any) -> None:
        seen.append(f"after {sender}")

    signals.before_task_publish.connect(before)
    signals.after_task_publish.connect(after)
    try:
        publisher_of(app).publish(run())
    finally:
        signals.before_task_publish.disconnect(before)
        signals.after_task_publish.disconnect(after)

    assert seen == ["before proj.note", "after proj.note"]
    assert taken(app).headers["traced"] == "yes"


def test_the_lines_people_search_their_logs_for_are_written(
    app: Celery, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, logger="celery.beat"):
        sent = publisher_of(app).publish(run())

    lines = [(r.levelname, r.getMessage()) for r in caplog.records if r.name == "celery.beat"]
    assert lines == [
        ("INFO", "Scheduler: Sending due task job (proj.note)"),
        ("DEBUG", f"proj.note sent. id->{sent}"),
    ]


def test_a_failure_is_told_once_a_run_in_the_words_of_beat(
    app: Celery, caplog: pytest.LogCaptureFixture
) -> None:
    publisher = publisher_of(app, args=[BeatLazyFunc(int, "x")])

    for token in ("one", "one", "two"):
        with pytest.raises(ValueError, match="invalid literal"):
            publisher.publish(run(token=token))

    said = [r.getMessage() for r in caplog.records if r.levelname == "ERROR"]
    assert len(said) == 2
    assert said[0].startswith("Message Error: Couldn't apply scheduled task job: invalid literal")


def test_the_entry_that_is_shown_says_when_it_was_sent(app: Celery) -> None:
    app.conf.beat_schedule = {"job": {"task": "proj.note", "schedule": 60}}
    shown = entries_of(app)
    (job,) = scheduler_of(shown, store="memory://").jobs
    before = app.now()

    cast(CeleryPublisher, job.action).publish(run())

    entry: Any = shown.sender.schedule["job"]
    assert entry.total_run_count == 1
    assert before <= entry.last_run_at <= app.now()


def test_a_result_backend_that_is_away_keeps_no_message_from_being_sent(app: Celery) -> None:
    app.conf.update(result_backend="redis://127.0.0.1:1")

    sent = publisher_of(app).publish(run())

    assert taken(app).headers["id"] == sent


def test_the_result_backend_is_left_as_it_was(app: Celery) -> None:
    app.conf.update(result_backend="redis://127.0.0.1:1")
    before = app.backend.on_task_call

    publisher_of(app).publish(run())

    assert app.backend.on_task_call == before


class TestEager:
    """``task_always_eager`` runs the task in this process; no broker is asked."""

    @pytest.fixture
    def app(self, app: Celery) -> Celery:
        app.conf.task_always_eager = True
        app.conf.update(broker_url="redis://127.0.0.1:1")
        return app

    def test_the_task_runs_here(self, app: Celery) -> None:
        ran: list[Any] = []

        @app.task(name="proj.here", bind=True, shared=False)
        def here(self: Any, what: str) -> None:
            ran.append((what, self.request.headers["anarchon"]["job"], self.request.id))

        sent = publisher_of(app, task="proj.here", args=["x"]).publish(run())

        assert ran == [("x", "job", sent)]

    @pytest.mark.parametrize("propagates", [False, True])
    def test_a_task_that_fails_has_run_all_the_same(self, app: Celery, propagates: bool) -> None:
        app.conf.task_eager_propagates = propagates

        @app.task(name="proj.fails", shared=False)
        def fails() -> None:
            raise ValueError("its own fault")

        assert publisher_of(app, task="proj.fails").publish(run())
