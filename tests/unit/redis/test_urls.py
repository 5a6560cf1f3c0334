"""What a store URL may say, and what is shown of it."""

from __future__ import annotations

from typing import Any

import pytest
from redis.asyncio.connection import Connection, SSLConnection, UnixDomainSocketConnection

from anarchon.backends import open_backend
from anarchon.backends.redis import RedisBackend
from anarchon.backends.redis.settings import read_url
from anarchon.errors import ConfigurationError


@pytest.mark.parametrize(
    ("url", "kind", "address"),
    [
        ("redis://h", Connection, ("h", 6379)),
        ("valkey://h:7000", Connection, ("h", 7000)),
        ("rediss://h", SSLConnection, ("h", 6379)),
        ("valkeys://h:7000/2", SSLConnection, ("h", 7000)),
        ("redis://", Connection, ("localhost", 6379)),
        ("redis://[::1]:7000", Connection, ("::1", 7000)),
    ],
)
def test_each_scheme_has_its_connection(url, kind, address):
    connection: Any = read_url(url).new_connection()

    assert type(connection) is kind
    assert (connection.host, connection.port) == address


def test_a_socket_is_named_by_its_path():
    connection = read_url("unix:///run/redis%20one.sock?db=3").new_connection()

    assert type(connection) is UnixDomainSocketConnection
    assert (connection.path, connection.db) == ("/run/redis one.sock", 3)


def test_user_and_password_are_decoded():
    connection = read_url("redis://us%3Aer:p%40ss%2F@h/1").new_connection()

    assert (connection.username, connection.password, connection.db) == ("us:er", "p@ss/", 1)


def test_options_of_the_driver_are_passed_on():
    url = "rediss://h?socket_timeout=2.5&client_name=sched&ssl_cert_reqs=none&protocol=3"

    connection: Any = read_url(url).new_connection()

    assert connection.socket_timeout == 2.5
    assert connection.client_name == "sched"
    assert int(connection.protocol) == 3
    assert connection.ssl_context.check_hostname is False


def test_a_call_waits_as_long_as_its_caller_does():
    connection = read_url("redis://h").new_connection()

    assert connection.socket_timeout is None
    assert connection.socket_connect_timeout == 5


def test_the_driver_never_repeats_a_call():
    url = "redis://h?retry_on_timeout=yes&retry_on_error=1&max_connections=5&decode_responses=no"

    connection = read_url(url).new_connection()

    assert connection.retry.get_retries() == 0
    assert connection.encoder.decode_responses


@pytest.mark.parametrize(
    ("url", "label"),
    [
        ("redis://h", "redis://h:6379/0"),
        ("valkeys://user:secret@h:7000/2", "valkeys://h:7000/2"),
        ("redis://secret@h/1", "redis://h:6379/1"),
        ("redis://:secret@[::1]", "redis://[::1]:6379/0"),
        ("redis://h?password=secret&db=4", "redis://h:6379/4"),
        ("rediss://h?ssl_password=secret", "rediss://h:6379/0"),
        ("unix://u:secret@/tmp/s?db=1", "unix:///tmp/s?db=1"),
        ("unix:///tmp/s?password=secret", "unix:///tmp/s"),
    ],
)
def test_a_label_names_the_store_and_no_secret(url, label):
    backend = open_backend(url)

    assert backend.label == label
    assert backend.connect("n").label == label
    assert "secret" not in repr(backend) + repr(backend.connect("n")) + repr(read_url(url))


@pytest.mark.parametrize(
    "url",
    [
        "redis://:sec/ret@h:6379",
        "redis://:sec#ret@h:6379",
        "redis://:sec?ret@h:6379",
        "redis://:sec[ret@h:6379",
        "redis://u:secret@h:port",
        "redis://u:secret@h:99999999",
        "redis://u:secret@h/one",
        "redis://u:secret@h?db=one",
        "redis://u:secret@h?mode=claim",
        "redis://u:secret@h?protocol=9",
        "redis://u:secret@h?socket_timeout=soon",
        "redis://u:secret@h?ssl_cert_reqs=none",
        "rediss://u:secret@h?ssl_cert_reqs=maybe",
        "unix://u:secret@",
        "http://u:secret@h",
        "secret:u@h",
        "redis://:/secret@h:6379/0",
        "redis://u:12/secret@h/0",
        "redis://u:12/secret/0",
        "redis:/user:secret@h/0",
        "redis:user:secret@h",
        "unix://u:12/secret@/tmp/s",
        "redis://u:12?secret@h/0",
        "redis://u:12?secret=x@h/0",
        "redis://u:12#secret@h/0",
        "redis://u:pa[secret]x@h/0",
        "redis://u:secret\u2100@h/0",
        "redis://[::1",
    ],
)
def test_what_cannot_be_read_is_refused_without_a_secret(url):
    with pytest.raises(ConfigurationError) as raised:
        RedisBackend(url)

    chain = [raised.value, raised.value.__cause__]
    assert raised.value.option == "store"
    assert raised.value.__context__ is None or raised.value.__suppress_context__
    assert not any("sec" in str(error) or "ret@" in str(error) for error in chain)


@pytest.mark.parametrize(
    "url",
    [
        "redis:user:secret@h",
        "redis://u:pa[secret]x@h/0",
        "postgresql://u:pa[secret]x@h/db",
        "postgresql://u:secret\u2100@h/db",
        "redis://[::1",
        "secret:u@h",
        "secret@h://",
        "user:secret@h",
    ],
)
def test_a_backend_is_looked_for_without_repeating_a_secret(url):
    with pytest.raises(ConfigurationError) as raised:
        open_backend(url)

    assert (raised.value.option, raised.value.fix is not None) == ("store", True)
    assert "secret" not in str(raised.value)
    assert raised.value.__context__ is None or raised.value.__suppress_context__


def test_a_password_may_hold_anything_that_is_percent_encoded():
    connection = read_url("redis://:a%2Fb%5Bc%5D%40%3F%23%3A@h/1").new_connection()

    assert connection.password == "a/b[c]@?#:"


def test_an_at_sign_may_stand_in_a_password_of_the_query():
    assert read_url("redis://h?password=p@ss").new_connection().password == "p@ss"


def test_an_unknown_option_is_named_with_those_there_are():
    with pytest.raises(ConfigurationError, match=r"'wait_replica'.*socket_timeout.*wait_replicas"):
        RedisBackend("redis://h?wait_replica=1")


@pytest.mark.parametrize(
    ("query", "replicas"),
    [("", 0), ("?wait_replicas=0", 0), ("?wait_replicas=2", 2), ("?db=3&wait_replicas=1", 1)],
)
def test_replicas_are_waited_for_where_the_url_says_so(query, replicas):
    settings = read_url(f"redis://h{query}")

    assert settings.wait_replicas == replicas
    assert "wait_replicas" not in settings.options


@pytest.mark.parametrize("given", ["", "-1", "one", "1.5", "+1", "%C2%B2", "1&wait_replicas="])
def test_a_number_of_replicas_that_is_none_is_refused_with_what_to_write(given):
    with pytest.raises(ConfigurationError, match="such as 1") as raised:
        RedisBackend(f"redis://u:secret@h?wait_replicas={given}")

    assert raised.value.option == "wait_replicas"
    assert "secret" not in str(raised.value)


def test_replicas_are_waited_for_where_the_argument_says_so():
    backend = RedisBackend("redis://h?wait_replicas=1", wait_replicas=2)

    assert backend._settings.wait_replicas == 2


@pytest.mark.parametrize("given", [-1, 1.0, True, "one"])
def test_an_argument_that_is_no_number_of_replicas_is_refused(given):
    with pytest.raises(ConfigurationError, match="such as 1"):
        RedisBackend("redis://h", wait_replicas=given)


def test_an_option_of_tls_says_which_scheme_it_needs():
    with pytest.raises(ConfigurationError, match="rediss://"):
        RedisBackend("redis://h?ssl_ca_certs=/ca.pem")
