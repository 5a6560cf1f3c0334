"""What is published for a run, and how long that may take."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import dramatiq
import pytest
from dramatiq import Broker, Message
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.brokers.redis import RedisBroker
from dramatiq.brokers.stub import StubBroker
from dramatiq.common import dq_name
from dramatiq.errors import ConnectionClosed
from dramatiq.middleware import AgeLimit

from anarchon import RunContext
from anarchon.run import OnStoreError, Tracking
from anarchon_dramatiq import AnarchonMiddleware, every
from anarchon_dramatiq.periodic import Periodic
from anarchon_dramatiq.publisher import DramatiqPublisher
from anarchon_dramatiq.way import way_to
from tests.celery.runs import run
from tests.dramatiq.bench import Hooks, declare
from tests.servers import Server, ServersForTests
from tests.servers.rabbitmq import RabbitServer
from tests.servers.redis import RedisServer

NOTE = {
    "namespace": "proj",
    "job": "job",
    "attempt": 1,
    "token": "t0k3n",
    "fence": 1_795_000_000_000,
}


def now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251


def tracking(within: timedelta = timedelta(hours=1), **more: Any) -> Tracking:
    given = {
        "lease": timedelta(seconds=15),
        "start_by": now() + within,
        "on_store_error": OnStoreError.RETRY,
        "timeout": None,
        **more,
    }
    return Tracking(**given)


class Post:
    """A publisher of one actor on a stub broker, and what it has sent."""

    def __init__(self, periodic: Periodic, *middleware: Any, **options: Any) -> None:
        self.broker = StubBroker(middleware=[AgeLimit(), *middleware])
        self.broker.add_middleware(AnarchonMiddleware("memory://"))
        self.actor = declare(self.broker, lambda *_, **__: None, actor_name="tell", **options)
        self.publisher = DramatiqPublisher(self.actor, periodic, way_to(self.broker))

    def publish(self, ctx: RunContext) -> Message[Any]:
        id = self.publisher.publish(ctx)
        queued = self.broker.queues["default"]
        message: Message[Any] = Message.decode(queued.get(timeout=5))
        assert message.message_id == id
        return message


def test_a_message_says_which_run_it_is_for() -> None:
    post = Post(every("1m", args=(1, 2), kwargs={"kind": "x"}, options={"priority": 3}))

    message = post.publish(run(slot=datetime(2026, 11, 29, 12, 0, 10, tzinfo=UTC)))

    assert (message.actor_name, message.args, message.kwargs) == ("tell", (1, 2), {"kind": "x"})
    note = {**NOTE, "slot": "2026-11-29T12:00:10.000Z"}
    assert message.options == {"priority": 3, "anarchon": note}


def test_each_publication_has_an_id_of_its_own() -> None:
    post = Post(every("1m"))

    first, second = (post.publish(run()) for _ in range(2))

    assert first.message_id != second.message_id


def test_hooks_of_middleware_see_the_message() -> None:
    hooks = Hooks()
    post = Post(every("1m"), hooks)

    post.publish(run())

    assert hooks.seen == ["before_enqueue"]


def test_an_age_limit_of_the_message_counts_from_the_slot() -> None:
    post = Post(every("1m", options={"max_age": 60_000}))

    message = post.publish(run(slot=now() - timedelta(seconds=20)))

    assert 38_000 < message.options["max_age"] <= 40_000


def test_a_message_that_is_late_already_has_an_age_limit_all_the_same() -> None:
    post = Post(every("1m", options={"max_age": 1_000}))

    assert post.publish(run(slot=now() - timedelta(seconds=20))).options["max_age"] == 1


def test_a_run_that_is_taken_over_is_not_late() -> None:
    post = Post(every("1m", options={"max_age": 60_000}))
    again = run(slot=now() - timedelta(seconds=90), attempt=2, tracking=tracking())

    assert post.publish(again).options["max_age"] == 60_000


def test_a_tracked_message_expires_when_nobody_may_begin_it() -> None:
    message = Post(every("1m")).publish(run(slot=now(), tracking=tracking()))

    assert 3_590_000 < message.options["max_age"] <= 3_600_000
    assert message.options["anarchon"]["lease"] == 15_000


@pytest.mark.parametrize("within", [timedelta(hours=1), timedelta(minutes=1)], ids=str)
def test_the_smaller_age_limit_stays(within: timedelta) -> None:
    post = Post(every("1m"), max_age=600_000)

    message = post.publish(run(slot=now(), tracking=tracking(within)))

    said = message.options.get("max_age", 0)
    assert said == 0 if within > timedelta(minutes=10) else 59_000 < said <= 60_000


@pytest.mark.parametrize(
    ("actors", "messages", "said"),
    [(None, None, 60_000), (30_000, None, 30_000), (90_000, None, 60_000), (5, 20_000, 20_000)],
)
def test_the_timeout_is_the_time_limit(actors: int | None, messages: int | None, said: int) -> None:
    options = {} if messages is None else {"time_limit": messages}
    limits = {} if actors is None else {"time_limit": actors}
    post = Post(every("1m", options=options), dramatiq.middleware.TimeLimit(), **limits)

    message = post.publish(run(slot=now(), tracking=tracking(timeout=timedelta(minutes=1))))

    assert message.options["time_limit"] == said


@pytest.mark.xdist_group("dramatiq-brokers")
class TestOnARealBroker:
    """One message at a time to Redis and to RabbitMQ."""

    @pytest.fixture(params=["redis-8.0", "rabbitmq-3.10"])
    def server(self, request: pytest.FixtureRequest, servers: ServersForTests) -> Server:
        return servers.get(request.param)

    @pytest.fixture
    def broker(self, server: Server) -> Iterator[Broker]:
        broker = broker_on(server)
        yield broker
        if isinstance(broker, RedisBroker):
            broker.client.connection_pool.disconnect()
        broker.close()

    def test_a_message_is_confirmed(self, broker: Broker) -> None:
        taken(broker)
        publisher, hooks = publisher_on(broker), hooks_of(broker)

        id = publisher.publish(run())

        assert [message.message_id for message in taken(broker)] == [id]
        assert hooks.seen == ["before_enqueue"]

    def test_a_queue_that_is_gone_is_noticed_and_made_again(
        self, broker: Broker, server: Server
    ) -> None:
        if not isinstance(broker, RabbitmqBroker):
            pytest.skip("on Redis a queue is there when something is in it")
        publisher = publisher_on(broker)
        publisher.publish(run())
        broker.channel.queue_delete("default")

        with pytest.raises(ConnectionClosed):
            publisher.publish(run())
        id = publisher.publish(run())

        assert [message.message_id for message in taken(broker)] == [id]

    def test_where_it_goes_is_told_without_a_password(self, broker: Broker, server: Server) -> None:
        assert f":{server.port}/" in publisher_on(broker).sends_to
        assert "guest" not in publisher_on(broker).sends_to

    @pytest.mark.timeout(120)
    @pytest.mark.parametrize("trouble", ["paused", "gone"])
    def test_a_call_ends_within_seconds_and_the_next_one_succeeds(
        self, broker: Broker, server: Server, trouble: str
    ) -> None:
        publisher = publisher_on(broker)
        publisher.publish(run())
        server.pause() if trouble == "paused" else server.stop()

        began = now()
        with pytest.raises(Exception) as caught:
            publisher.publish(run())
        took = now() - began

        assert took < timedelta(seconds=16), caught.value
        server.resume() if trouble == "paused" else server.start()
        id = until_it_works(lambda: publisher.publish(run()))
        assert id in [message.message_id for message in taken(broker)]

    def test_a_connection_that_the_broker_has_closed_costs_nothing(
        self, broker: Broker, server: Server
    ) -> None:
        publisher = publisher_on(broker)
        publisher.publish(run())
        server.stop()
        server.start()

        publisher.publish(run())


def broker_on(server: Server) -> Broker:
    broker: Broker
    if isinstance(server, RabbitServer):
        broker = RabbitmqBroker(url=server.url().rstrip("/") + "/%2F")
    else:
        assert isinstance(server, RedisServer)
        broker = RedisBroker(url=server.url(database=11))
    broker.add_middleware(AnarchonMiddleware("memory://"))
    broker.add_middleware(Hooks())
    return broker


def hooks_of(broker: Broker) -> Hooks:
    (hooks,) = [one for one in broker.middleware if isinstance(one, Hooks)]
    return hooks


def publisher_on(broker: Broker) -> DramatiqPublisher:
    name = f"tell-{len(broker.actors)}"
    actor = declare(broker, lambda: None, actor_name=name)
    return DramatiqPublisher(actor, every("1m"), way_to(broker))


def taken(broker: Broker) -> list[Any]:
    """Take what is in the queue."""
    messages = []
    broker.declare_queue("default")
    consumer = broker.consume("default", prefetch=100, timeout=200)
    while (message := next(consumer, None)) is not None:
        messages.append(message)
        consumer.ack(message)
    assert dq_name("default") not in broker.queues
    consumer.close()
    return messages


def until_it_works(call: Callable[[], str]) -> str:
    end = now() + timedelta(seconds=60)
    while True:
        try:
            return call()
        except Exception:
            if now() > end:
                raise
