"""URLs that name several servers: sentinels, or nodes of a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from anarchon.backends import open_backend
from anarchon.backends.redis import RedisBackend
from anarchon.backends.redis.addresses import read_store_url
from anarchon.backends.redis.settings import Shape
from anarchon.errors import ConfigurationError


@pytest.mark.parametrize(
    ("url", "places", "service", "db"),
    [
        ("redis+sentinel://a:1,b:2/main", (("a", 1), ("b", 2)), "main", 0),
        ("valkey+sentinel://a,[::1]:7/main/3", (("a", 26379), ("::1", 7)), "main", 3),
        ("redis+sentinel://u:p@a/main?db=4", (("a", 26379),), "main", 4),
        ("rediss+sentinel://a,a:26379/main", (("a", 26379),), "main", 0),
    ],
)
def test_sentinels_are_named_with_their_service(url, places, service, db):
    settings = read_store_url(url)

    assert settings.shape is Shape.SENTINEL
    assert (settings.places, settings.service) == (places, service)
    assert int(settings.options.get("db", 0)) == db


@pytest.mark.parametrize("tail", ["", "/", "/0", "?wait_replicas=1"])
def test_nodes_of_a_cluster_are_named_without_a_database(tail):
    settings = read_store_url(f"redis+cluster://a:1,b{tail}")

    assert settings.shape is Shape.CLUSTER
    assert settings.places == (("a", 1), ("b", 6379))
    assert settings.wait_replicas == (1 if "wait" in tail else 0)


def test_servers_and_sentinels_have_logins_of_their_own():
    settings = read_store_url(
        "rediss+sentinel://us%3Aer:p%40ss@a:1/main/2?sentinel_username=s&sentinel_password=q%2Fz"
        "&ssl_cert_reqs=none&client_name=web&socket_connect_timeout=2"
    )

    server: Any = settings.new_connection(("h", 7))
    sentinel: Any = settings.new_connection_to_sentinel(("i", 8))

    assert (server.host, server.port, server.db) == ("h", 7, 2)
    assert (server.username, server.password) == ("us:er", "p@ss")
    assert (sentinel.host, sentinel.port, sentinel.db) == ("i", 8, 0)
    assert (sentinel.username, sentinel.password) == ("s", "q/z")
    assert (server.client_name, sentinel.client_name) == ("web", None)
    for connection in (server, sentinel):
        assert connection.ssl_context.check_hostname is False
        assert connection.socket_connect_timeout == 2
    assert settings.secrets == ("p@ss", "q/z")


@pytest.mark.parametrize(
    ("url", "label"),
    [
        ("redis+sentinel://u:secret@a:1,[::1]/m", "redis+sentinel://a:1,[::1]:26379/m/0"),
        ("valkey+sentinel://a/m/2?sentinel_password=secret", "valkey+sentinel://a:26379/m/2"),
        ("rediss+cluster://:secret@a,b:7?password=secret", "rediss+cluster://a:6379,b:7"),
    ],
)
def test_a_label_names_all_servers_and_no_secret(url, label):
    backend = open_backend(url)

    assert backend.label == label
    assert "secret" not in repr(backend) + repr(backend.connect("n")) + repr(read_store_url(url))


@pytest.mark.parametrize(
    ("url", "to_write"),
    [
        ("redis+sentinel://a:1,b:2", "/SERVICE"),
        ("redis+sentinel://u:secret@a/", "/SERVICE"),
        ("redis+sentinel://u:secret@a/m/one", "/SERVICE/DB"),
        ("redis+sentinel://u:secret@/m", "HOST:PORT,HOST:PORT"),
        ("redis+sentinel://u:secret@a:x/m", "HOST:PORT,HOST:PORT"),
        ("redis+sentinel://u:secret@a:99999/m", "HOST:PORT,HOST:PORT"),
        ("redis+sentinel://u:secret@a,,b/m", "HOST:PORT,HOST:PORT"),
        ("redis+sentinel://u:secret@a/m?sentinel_pasword=secret", "sentinel_password"),
        ("redis+cluster://u:secret@a/1", "without a database"),
        ("redis+cluster://u:secret@a?db=2", "without a database"),
        ("redis+cluster://u:secret@a/main", "without a database"),
        ("redis+cluster://u:secret@a?sentinel_password=secret", "known are"),
        ("redis+cluster://u:secret@a?ssl_ca_certs=/ca.pem", "rediss"),
        ("redis+cluster://u:sec/ret@a:1,b:2", "percent-encode"),
        ("redis+cluster://u:sec#ret@a", "percent-encode"),
        ("redis+cluster://u:sec?ret@a", "percent-encode"),
        ("redis+cluster://u:sec,ret", "percent-encode"),
        ("redis+cluster:u:secret@a", "redis"),
    ],
)
def test_what_cannot_be_read_is_refused_with_what_to_write_and_no_secret(url, to_write):
    with pytest.raises(ConfigurationError) as raised:
        RedisBackend(url)

    told = str(raised.value)
    assert raised.value.option == "store"
    assert to_write in told
    assert "secret" not in told.replace("sentinel_pasword", "")
    assert "ret@" not in told
    assert raised.value.__context__ is None or raised.value.__suppress_context__
