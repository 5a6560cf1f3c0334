"""How actors are said to be periodic, and what is refused where it is said."""

from datetime import UTC, datetime
from typing import Any

import dramatiq
import pytest
from dramatiq import Broker
from dramatiq.brokers.stub import StubBroker
from dramatiq.middleware import AgeLimit, Retries, TimeLimit

from anarchon import Cron, Every
from anarchon.backends.memory_claims import MemoryClaimBackend
from anarchon.errors import ConfigurationError, MissingExtra, UnknownBackend
from anarchon_dramatiq import AnarchonMiddleware, at, cron, every, schedule, scheduler_for
from tests.dramatiq.bench import declare


@pytest.fixture
def broker() -> Broker:
    broker = StubBroker()
    broker.add_middleware(AnarchonMiddleware("memory://"))
    return broker


def actor(broker: Broker, name: str = "tell", **options: Any) -> dramatiq.Actor[..., Any]:
    return declare(broker, lambda *_: None, actor_name=name, **options)


def jobs(broker: Broker) -> dict[str, str]:
    return {job.name: job.schedule.canonical() for job in scheduler_for(broker).jobs}


def test_an_actor_says_when_it_is_due(broker: Broker) -> None:
    actor(broker, periodic=cron("0 8 * * 1-5", timezone="Europe/Athens"))

    assert jobs(broker) == {"tell": Cron("0 8 * * 1-5", "Europe/Athens").canonical()}


def test_an_actor_may_be_due_in_several_ways(broker: Broker) -> None:
    moment = datetime(2027, 1, 1, tzinfo=UTC)

    actor(
        broker,
        periodic=[
            every("10s"),
            cron("@weekly", name="tell-weekly"),
            at(moment, name="tell-once"),
        ],
    )

    assert jobs(broker) == {
        "tell": Every("10s").canonical(),
        "tell-weekly": Cron("0 0 * * 0").canonical(),
        "tell-once": "at " + at(moment).schedule.canonical().removeprefix("at "),
    }


def test_a_schedule_of_the_engine_will_do(broker: Broker) -> None:
    actor(broker, periodic=Every("1m"))

    assert jobs(broker) == {"tell": Every("1m").canonical()}


def test_a_schedule_may_stand_apart_from_its_actor(broker: Broker) -> None:
    tell = actor(broker)

    schedule(broker, "hourly", cron("0 * * * *", args=(1,)), tell, args=(2,), jitter=0)

    (job,) = scheduler_for(broker).jobs
    assert (job.name, job.jitter.total_seconds()) == ("hourly", 0)


def test_jobs_have_the_options_of_the_middleware_and_their_own() -> None:
    broker = StubBroker()
    broker.add_middleware(AnarchonMiddleware("memory://", jitter=0, track=True, lease="30s"))

    actor(broker, periodic=every("1m", lease="10s", overlap="skip"))

    (job,) = scheduler_for(broker).jobs
    assert (job.lease.total_seconds(), job.jitter.total_seconds()) == (10, 0)
    assert (job.track, job.overlap) == (True, "skip")


@pytest.mark.parametrize(
    ("actors", "messages", "jobs_own", "seconds"),
    [
        (None, None, None, 3600),
        (None, 60_000, None, 60),
        (30_000, None, None, 30),
        (30_000, 60_000, None, 60),
        (None, 90_000_000, None, 3600),
        (None, 5, None, 1),
        (None, 60_000, "10m", 600),
    ],
)
def test_the_age_limit_of_a_tracked_message_is_its_start_deadline(
    broker: Broker, actors: int | None, messages: int | None, jobs_own: str | None, seconds: int
) -> None:
    options = {} if messages is None else {"max_age": messages}
    own: Any = {} if jobs_own is None else {"start_within": jobs_own}
    limits: Any = {} if actors is None else {"max_age": actors}

    actor(broker, periodic=every("1m", options=options, track=True, **own), **limits)

    (job,) = scheduler_for(broker).jobs
    assert job.start_within is not None
    assert job.start_within.total_seconds() == seconds


def test_jobs_may_overlap_unless_they_say_otherwise(broker: Broker) -> None:
    actor(broker, periodic=every("1m"))

    assert scheduler_for(broker).jobs[0].overlap == "allow"


@pytest.mark.parametrize("position", ["alone", "first", "last", "before", "constructed", "late"])
def test_it_stands_first_wherever_it_is_added(position: str) -> None:
    ours = AnarchonMiddleware("memory://")
    broker = StubBroker(
        middleware=[AgeLimit(), TimeLimit(), Retries(), ours]
        if position == "constructed"
        else []
        if position == "alone"
        else [AgeLimit(), TimeLimit(), Retries()]
    )
    if position == "late":
        actor(broker, "early")
    if position == "before":
        broker.add_middleware(ours, before=TimeLimit)
    elif position != "constructed":
        broker.add_middleware(ours)

    actor(broker, periodic=every("1m"))
    broker.add_middleware(Late(), before=AnarchonMiddleware)
    actor(broker, "another")

    assert broker.middleware[0] is ours
    assert len(broker.middleware) == len(set(map(id, broker.middleware)))


class Late(dramatiq.Middleware):
    """A middleware of the user's own that wants to be first as well."""


any_every: Any = every
any_middleware: Any = AnarchonMiddleware
any_schedule: Any = schedule

REFUSED: list[tuple[Any, str]] = [
    (lambda broker: actor(broker, periodic="0 8 * * *"), 'write cron("0 8 * * *")'),
    (lambda broker: cron("61 * * * *"), "61"),
    (lambda broker: cron("* * * * *", timezone="Mars/Base"), "Mars/Base"),
    (lambda broker: every("soon"), "soon"),
    (
        lambda broker: any_every("1m", trak=True),
        "there is no such option; did you mean track?",
    ),
    (lambda broker: any_every("1m", args=1), "args: 1 is no list of arguments"),
    (lambda broker: every("1m", args="abc"), "args: 'abc' is no list of arguments"),
    (lambda broker: any_every("1m", kwargs=[1]), "kwargs: [1] is no mapping"),
    (lambda broker: every("1m", options={"anarchon": 1}), "options: 'anarchon'"),
    (
        lambda broker: actor(broker, periodic=every("1m", start_within="5m")),
        "job 'tell': start_within: it is about a published run that is tracked",
    ),
    (
        lambda broker: actor(broker, periodic=[every("1m"), every("2m")]),
        "job 'tell': a schedule of tell has this name already; give this one another",
    ),
    (
        lambda broker: actor(broker, periodic=every("1m", args=(object(),))),
        "job 'tell': periodic: its message cannot be encoded: Object of type object",
    ),
    (
        lambda broker: actor(broker, periodic=every("1m", options={"x": {1, 2}})),
        "job 'tell': periodic: its message cannot be encoded: Object of type set",
    ),
    (
        lambda broker: actor(broker, max_age="60s", periodic=every("1m")),
        "job 'tell': max_age: '60s' is no number of milliseconds; write max_age=60_000",
    ),
    (lambda broker: every("1m", options={"delay": "5s"}), "delay: '5s' is no number of milli"),
    (lambda broker: every("1m", options={"time_limit": -1}), "time_limit: -1 is no number of"),
    (
        lambda broker: schedule(broker, "other", every("1m"), actor(StubBroker())),
        "job 'other': actor: tell is an actor of another broker",
    ),
    (
        lambda broker: (
            any_schedule(broker, "n", every("1m"), actor(broker)),
            any_schedule(broker, "n", every("1m"), broker.get_actor("tell")),
        ),
        "job 'n': a schedule of tell has this name already",
    ),
    (
        lambda broker: any_schedule(broker, "n", "0 8 * * *", actor(broker)),
        "job 'n': periodic: '0 8 * * *' is no schedule",
    ),
    (
        lambda broker: schedule(StubBroker(), "n", every("1m"), actor(StubBroker())),
        "middleware: StubBroker has no AnarchonMiddleware; write broker.add_middleware(",
    ),
    (lambda broker: scheduler_for(StubBroker()), "StubBroker has no AnarchonMiddleware"),
    (lambda broker: AnarchonMiddleware(""), "store: there is no store; write store="),
    (lambda broker: any_middleware("memory://", embedded=1), "embedded: 1 is neither yes nor"),
    (lambda broker: AnarchonMiddleware("memory://", namespace=""), "namespace: '' cannot be"),
    (lambda broker: AnarchonMiddleware("memory://", leese=3), "leese: there is no such option"),
]


@pytest.mark.parametrize(("mistake", "told"), REFUSED, ids=[told[:40] for _, told in REFUSED])
def test_a_mistake_is_told_where_it_is_made(broker: Broker, mistake: Any, told: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        mistake(broker)

    assert told in str(refused.value)
    assert jobs(broker) in ({}, {"n": Every("1m").canonical()})


def test_a_store_that_is_unknown_is_refused() -> None:
    with pytest.raises((UnknownBackend, MissingExtra)):
        AnarchonMiddleware("mongodb://host")


def test_what_needs_a_lease_is_refused_on_a_store_without(broker: Broker) -> None:
    claims = StubBroker()
    claims.add_middleware(AnarchonMiddleware(MemoryClaimBackend()))

    with pytest.raises(ConfigurationError, match="job 'tell': track: it needs a store that keeps"):
        actor(claims, periodic=every("1m", track=True))
    actor(claims, periodic=every("1m"))

    assert list(jobs(claims)) == ["tell"]


def test_two_on_one_broker_are_refused(broker: Broker) -> None:
    broker.add_middleware(AnarchonMiddleware("memory://"))

    with pytest.raises(ConfigurationError) as refused:
        actor(broker)

    assert "two AnarchonMiddlewares on one broker; add one of them" in str(refused.value)


def test_a_second_one_is_refused_as_it_is_added_to_a_broker_with_actors(broker: Broker) -> None:
    actor(broker)

    with pytest.raises(ConfigurationError, match="two AnarchonMiddlewares"):
        broker.add_middleware(AnarchonMiddleware("memory://"))


def test_one_on_two_brokers_is_refused() -> None:
    ours = AnarchonMiddleware("memory://")
    for broker in (first := StubBroker(), second := StubBroker()):
        broker.add_middleware(ours)
    actor(first)

    with pytest.raises(ConfigurationError, match="stands on two brokers; make one for each"):
        actor(second)


def test_an_actor_that_is_refused_is_not_declared(broker: Broker) -> None:
    with pytest.raises(ConfigurationError):
        actor(broker, periodic=[every("1m"), every("2m")])

    actor(broker, periodic=every("3m"))

    assert jobs(broker) == {"tell": Every("3m").canonical()}
