"""Messages of one moment, which go to a Redis broker in one flight."""

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import pytest
from celery import Celery, Signature, Task
from celery.signals import after_task_publish
from redis import Redis

from anarchon.message import HEADER, mapping_of
from anarchon.scheduler.outbox import Letter, Outbox, Returned
from anarchon.testing import ManualClock
from anarchon_celery.beat_sender import Sender
from anarchon_celery.broker import Broker
from anarchon_celery.publisher import CeleryPublisher
from tests.celery.project import make_app
from tests.celery.runs import entry_of, publisher_of, run, taken
from tests.engine.brokers import AtOnce
from tests.servers import ServersForTests
from tests.servers.redis import RedisServer

KOMBU = tuple(map(int, version("kombu").split(".")[:2]))
#: An id, and for how long a message is still good.
OWN = rb'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<="expiration": ")\d+'
pytestmark = pytest.mark.skipif(KOMBU < (5, 7), reason="kombu 5.7 made it possible")


@pytest.fixture
def server(servers: ServersForTests) -> Iterator[RedisServer]:
    server = servers.start("redis-8.0")
    assert isinstance(server, RedisServer)
    yield server
    server.stop()


@pytest.fixture
def app(server: RedisServer) -> Celery:
    return make_app(server.url())


@pytest.fixture
def publisher(app: Celery) -> CeleryPublisher:
    """One that has sent before, so that the queue is declared."""
    publisher = publisher_of(app, args=["x"])
    publisher.publish(run())
    taken(app)
    return publisher


def flights(server: RedisServer, work: Any) -> int:
    """Return how often the server was written to while this was done."""
    with Redis(port=server.port, decode_responses=True) as admin:
        before = admin.info("stats")["total_reads_processed"]
        work()
        after = admin.info("stats")["total_reads_processed"]
    return int(after) - int(before) - 1


def all_taken(app: Celery) -> list[str]:
    """Return the ids of all messages in the queue, oldest first."""
    with app.connection_for_read() as connection:
        channel: Any = connection.default_channel
        client = channel.client
        bodies = client.lrange("celery", 0, -1)
        client.delete("celery")
    return [json.loads(body)["headers"]["id"] for body in reversed(bodies)]


def test_they_are_one_flight_and_keep_their_order(
    app: Celery, publisher: CeleryPublisher, server: RedisServer
) -> None:
    ids: list[str] = []

    def send() -> None:
        with publisher._broker.together():
            ids.extend(publisher.publish(run(token=f"t{n}")) for n in range(50))

    # the server reads 16 kB a time
    assert flights(server, send) < 10
    assert all_taken(app) == ids
    assert len(set(ids)) == 50


def test_a_message_alone_goes_as_it_ever_did(
    app: Celery, publisher: CeleryPublisher, server: RedisServer
) -> None:
    sent = publisher.publish(run())

    assert taken(app).headers["id"] == sent


def test_each_is_the_message_that_it_is_when_it_goes_alone(
    app: Celery, publisher: CeleryPublisher
) -> None:
    publisher.publish(run())
    alone = taken(app)
    with publisher._broker.together():
        publisher.publish(run())
    together = taken(app)

    own = {"id", "root_id"}
    assert _without(together.headers, own) == _without(alone.headers, own)
    assert together.payload == alone.payload
    assert set(together.properties) == set(alone.properties)
    assert together.properties["delivery_info"] == alone.properties["delivery_info"]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"queue": "other", "priority": 7},
        {"exchange": "celery", "routing_key": "celery"},
        {"serializer": "yaml", "compression": "zlib"},
        {"expires": datetime(2031, 1, 1, tzinfo=UTC), "time_limit": 5, "ignore_result": True},
        {"headers": {"trace": "x"}, "shadow": "shown", "link": Signature("proj.note", args=("y",))},
    ],
    ids=lambda options: ",".join(options) or "none",
)
def test_each_is_byte_for_byte_what_apply_async_sends(
    app: Celery, server: RedisServer, options: dict[str, Any]
) -> None:
    args: Any = ["x", {"nested": [1, None]}]
    publisher = publisher_of(app, args=args, options=options)
    context = run()
    with publisher._broker.together():
        publisher.publish(context)
        publisher.publish(context)

    headers = {
        **options.get("headers", {}),
        "celery_beat_task": True,
        "periodic_task_name": "job",
        HEADER: mapping_of(context),
    }
    app.tasks["proj.note"].apply_async(args, {}, **{**options, "headers": headers})

    first, second, plain = _raw(server)
    assert first == second == plain


def _raw(server: RedisServer) -> list[bytes]:
    """Return the messages of all queues as they lie there, but for what no two have in common."""
    with Redis(port=server.port) as client:
        queues = [key for key in client.scan_iter() if client.type(key) == b"list"]
        bodies = [body for key in queues for body in client.lrange(key, 0, -1)]
    return [re.sub(OWN, b"own", body) for body in reversed(bodies)]


def _without(headers: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in headers.items() if name not in names}


@pytest.fixture
def told() -> Iterator[list[str]]:
    """Ids as the signal tells them, which must be heard before an app sends for the first time.

    From then on Celery 5.6 looks at the list of receivers as it was, and a receiver that died
    elsewhere makes the next one go into another list.
    """
    told: list[str] = []

    def hear(headers: dict[str, Any], **_: object) -> None:
        told.append(headers["id"])

    after_task_publish.connect(hear)
    yield told
    after_task_publish.disconnect(hear)


def test_the_signals_of_each_are_sent(told: list[str], publisher: CeleryPublisher) -> None:
    told.clear()

    with publisher._broker.together():
        ids = [publisher.publish(run(token=f"t{n}")) for n in range(3)]

    assert told == ids


def test_a_broker_that_goes_away_in_between_is_an_error_and_then_used_again(
    app: Celery, publisher: CeleryPublisher, server: RedisServer
) -> None:
    with ExitStack() as together:
        together.enter_context(publisher._broker.together())
        publisher.publish(run())
        server.kill()
        with pytest.raises(Exception, match="uncertain"):
            together.close()
    server.start()

    with publisher._broker.together():
        sent = publisher.publish(run())

    assert all_taken(app)[-1] == sent


def test_one_that_cannot_be_made_keeps_no_other_from_going(
    app: Celery, publisher: CeleryPublisher
) -> None:
    odd = publisher_of(app, args=[object()])
    odd._broker = publisher._broker

    with publisher._broker.together():
        first = publisher.publish(run(token="a"))
        with pytest.raises(Exception, match=r"JSON"):
            odd.publish(run(token="b"))
        last = publisher.publish(run(token="c"))

    assert all_taken(app) == [first, last]
    assert publisher.publish(run(token="d"))


def test_where_nothing_is_published_nothing_is_reached(server: RedisServer) -> None:
    broker = Broker(make_app(server.url()))
    server.kill()

    with broker.together():
        pass


def test_only_what_waits_for_the_end_can_be_taken_back(publisher: CeleryPublisher) -> None:
    with publisher._broker.together() as piece:
        publisher.publish(run())
        assert piece.is_held_back

    at_once = publisher_of(make_app("memory://"))
    with at_once._broker.together() as piece:
        at_once.publish(run())
        assert not piece.is_held_back


class Locked(Task):  # type: ignore[type-arg]
    """Sends nothing while a message of it is on its way, as celery-singleton's tasks do."""

    is_locked = False

    def apply_async(self, *args: Any, **options: Any) -> Any:
        if self.is_locked:
            return None
        self.is_locked = True
        try:
            return super().apply_async(*args, **options)
        except BaseException:
            self.is_locked = False
            raise


def test_an_apply_async_of_a_tasks_own_hears_that_its_message_did_not_go(
    app: Celery, publisher: CeleryPublisher, server: RedisServer
) -> None:

    @app.task(base=Locked, name="proj.locked", shared=False)
    def task() -> None: ...

    locked, plain = beside(publisher, "proj.locked", "proj.note")
    server.kill()

    told = outcomes(locked, plain)

    assert [isinstance(outcome, Returned) for outcome in told] == [False, False]
    assert not task.is_locked
    server.start()
    (again,) = outcomes(locked)
    assert all_taken(app) == [again.value]


@pytest.mark.filterwarnings("ignore::celery.exceptions.AlwaysEagerIgnored")
def test_a_task_that_ran_here_has_run_though_the_messages_beside_it_did_not_go(
    app: Celery, publisher: CeleryPublisher, server: RedisServer
) -> None:
    ran: list[int] = []

    @app.task(name="proj.here", shared=False)
    def here_it_runs() -> None:
        ran.append(1)

    app.conf.task_always_eager = True
    away, here = beside(publisher, "proj.elsewhere", "proj.here")
    server.kill()

    told = outcomes(away, here)

    assert [isinstance(outcome, Returned) for outcome in told] == [False, True]
    assert ran == [1]


def test_what_instrumentation_replaces_in_every_task_keeps_none_from_the_flight(
    publisher: CeleryPublisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Wrapped:
        """One that is made anew each time it is looked up, as wrapt's are."""

        def __get__(self, task: Any, owner: Any) -> Any:
            return lambda *args, **options: apply_async(task, *args, **options)

    apply_async = Task.apply_async
    monkeypatch.setattr(Task, "apply_async", Wrapped())

    assert publisher.way is publisher._broker


def beside(publisher: CeleryPublisher, *tasks: str) -> list[CeleryPublisher]:
    """Return publishers of these tasks on the connection of another."""
    app, broker = publisher._app, publisher._broker
    app.conf.beat_schedule = {task: {"task": task, "schedule": 60} for task in tasks}
    return [CeleryPublisher(Sender(app), entry_of(app, task), broker) for task in tasks]


def outcomes(*publishers: CeleryPublisher) -> Any:
    """Return what becomes of a run of each, when all wait in one moment."""

    async def send() -> list[object]:
        outbox = Outbox(ManualClock())
        outbox.thread = AtOnce()
        return await asyncio.gather(
            *(outbox.send(Letter(each, run(token=each.task), lambda: True)) for each in publishers)
        )

    return asyncio.run(send())
