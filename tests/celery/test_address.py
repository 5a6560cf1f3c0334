"""Where the messages of a project go, as a job's edition knows it."""

import logging
import sys
from typing import Any

import pytest
from celery import Celery

from anarchon import ConfigurationError
from anarchon.backends.memory import MemoryBackend
from anarchon_celery import scheduler_for
from anarchon_celery.address import address_of
from tests.celery.runs import publisher_of


def project(**settings: Any) -> Celery:
    app = Celery("proj", set_as_current=False)
    app.conf.update(result_expires=None, **settings)
    return app


def test_a_publisher_says_where_it_sends_to(app: Celery) -> None:
    app.conf.update(broker_url="amqp://me:s3cret@broker/shop")

    assert publisher_of(app).sends_to == "amqp://broker:5672/shop"


@pytest.mark.parametrize(
    ("broker", "address"),
    [
        (None, "amqp://localhost:5672//"),
        ("amqp://me:s3cret@host//", "amqp://host:5672//"),
        ("pyamqp://host", "amqp://host:5672//"),
        ("redis://:s3cret@host:6380/3", "redis://host:6380/3"),
        ("redis://host", "redis://host:6379/0"),
        ("rediss://host/0?ssl_cert_reqs=none", "redis://host:6379/0"),
        ("redis+socket:///run/redis.sock?virtual_host=2", "redis:///run/redis.sock/2"),
        ("amqp://me:s3cret@b;amqp://a/x", "amqp://a:5672/x;amqp://b:5672//"),
        (["amqp://a/x", "amqp://b"], "amqp://a:5672/x;amqp://b:5672//"),
        ("memory://", "memory://localhost//"),
    ],
)
def test_an_address_is_the_same_however_the_broker_is_written(
    broker: str | list[str] | None, address: str
) -> None:
    assert address_of(project(broker_url=broker)) == address


@pytest.mark.parametrize("password", ["s3cret", "s3/cret", "s3?cret", "s3:cret"])
def test_a_url_that_the_transport_reads_itself_loses_its_password_too(
    monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    monkeypatch.setattr("kombu.transport.memory.Transport.can_parse_url", True)
    app = project(broker_url=f"memory+postgresql://me:{password}@b,a:5/db?sslpassword=s3cret")

    assert address_of(app) == "memory://a:5,b/db"


def test_the_connection_for_writing_counts() -> None:
    app = project(broker_url="amqp://read", broker_write_url="amqp://write")

    assert address_of(app) == "amqp://write:5672//"


def test_what_divides_one_server_among_projects_is_in_the_address() -> None:
    app = project(
        broker_url="redis://host", broker_transport_options={"global_keyprefix": "staging:"}
    )

    assert address_of(app) == "redis://host:6379/0 global_keyprefix=staging:"


def test_a_transport_that_cannot_be_imported_is_told_with_what_to_type(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kombu.transport._transport_cache", {})
    monkeypatch.delitem(sys.modules, "kombu.transport.redis", raising=False)
    monkeypatch.setitem(sys.modules, "packaging.version", None)

    with pytest.raises(ConfigurationError) as caught:
        scheduler_for(project(broker_url="rediss://host"), store="memory://")

    assert (caught.value.option, caught.value.fix) == (
        "broker_url",
        "type: pip install 'celery[redis]'",
    )


def test_a_transport_that_misses_its_library_only_when_it_is_made_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kombu.transport.redis.redis", None)

    with pytest.raises(ConfigurationError) as caught:
        address_of(project(broker_url="redis://host"))

    assert caught.value.fix == "type: pip install 'celery[redis]'"


def test_a_transport_that_does_not_exist_is_told() -> None:
    with pytest.raises(ConfigurationError) as caught:
        address_of(project(broker_url="nosuch://host"))

    assert caught.value.option == "broker_url"


def test_a_url_with_a_query_that_kombu_does_not_take_is_told() -> None:
    with pytest.raises(ConfigurationError) as caught:
        address_of(project(broker_url="redis://host?visibility_timeout=60"))

    assert "'visibility_timeout'" in caught.value.problem
    assert caught.value.fix is not None
    assert "broker_transport_options" in caught.value.fix


@pytest.mark.parametrize(
    "broker",
    [
        "amqp://me:s3cret/x@host",
        "amqp://me:12/s3cret@host/vhost",
        "amqp://me:12?s3cret@host",
        "amqp://me:12#s3cret@host",
        "amqp:me:s3cret@host//",
        "amqp://me:12;s3cret@host",
        "amqp://me:pa[s3cret]x@host",
        "redis:/me:s3cret@host:6379/0",
        "redis:me:s3cret@host:6379/0",
        "redis://:/s3cret@host:6379/0",
        "redis://me:12/s3cret@host/0",
        "redis://me:12?s3cret=x@host/0",
        "redis://me:s3cret\u2100@host/0",
        "redis://[::1",
        ["redis://host/0", "redis://me:12/s3cret@host/0"],
    ],
)
def test_a_url_that_cannot_be_read_is_told_without_its_password(broker: str | list[str]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        address_of(project(broker_url=broker))

    assert caught.value.option == "broker_url"
    assert "%2F" in str(caught.value)
    assert "s3cret" not in str(caught.value)
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_an_at_sign_may_stand_percent_encoded_in_a_virtual_host() -> None:
    app = project(broker_url="amqp://me:s3cret@host/a%40b")

    assert address_of(app) == "amqp://host:5672/a@b"


async def test_two_environments_on_one_store_are_told_of_each_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    entries = {"job": {"task": "proj.note", "schedule": 7 * 86400}}
    prod = project(broker_url="amqp://prod", beat_schedule=entries)
    staging = project(broker_url="amqp://staging", beat_schedule=entries)
    backend = MemoryBackend()

    async with scheduler_for(prod, store=backend):
        with caplog.at_level(logging.WARNING, logger="anarchon.scheduler"):
            async with scheduler_for(staging, store=backend):
                pass

    assert "two editions of a job are in use" in caplog.text
    assert "job=job" in caplog.text


async def test_two_instances_of_one_environment_are_one_edition(
    caplog: pytest.LogCaptureFixture,
) -> None:
    entries = {"job": {"task": "proj.note", "schedule": 7 * 86400}}
    brokers = ("amqp://me:old@a;amqp://b", ["amqp://b", "amqp://me:new@a"])
    backend = MemoryBackend()

    with caplog.at_level(logging.WARNING, logger="anarchon.scheduler"):
        for broker in brokers:
            app = project(broker_url=broker, beat_schedule=entries)
            async with scheduler_for(app, store=backend):
                pass

    assert caplog.text == ""
