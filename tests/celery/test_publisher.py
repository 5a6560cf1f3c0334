"""What one message holds, on a broker in this process."""

import copy
import logging
from datetime import datetime, timedelta
from typing import Any

import pytest
from celery import Celery, signals
from celery.beat import BeatLazyFunc
from kombu.transport.memory import Channel

from tests.celery.runs import publisher_of, run, taken


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


@pytest.mark.parametrize(("option", "header"), [("countdown", "eta"), ("expires", "expires")])
def test_countdown_and_expires_count_from_the_send(app: Celery, option: str, header: str) -> None:
    publisher_of(app, options={option: 600}).publish(run())

    told = datetime.fromisoformat(taken(app).headers[header])
    assert timedelta(seconds=500) < told - app.now() <= timedelta(seconds=600)


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
