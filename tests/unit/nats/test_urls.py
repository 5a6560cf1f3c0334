"""What a URL may say, and the one clear error for what it may not."""

from __future__ import annotations

import traceback
from datetime import timedelta

import pytest

from anarchon.backends import open_backend
from anarchon.backends.nats import NatsBackend
from anarchon.backends.nats.settings import read_url
from anarchon.claim_store import ClaimBackend
from anarchon.errors import ConfigurationError


@pytest.mark.parametrize("url", ["nats://a:4222", "tls://a:4222", "NATS://a"])
def test_the_urls_of_nats_are_opened(url):
    backend = open_backend(url)

    assert isinstance(backend, NatsBackend)
    assert isinstance(backend, ClaimBackend)


@pytest.mark.parametrize(
    ("url", "servers"),
    [
        ("nats://a", ["nats://a:4222"]),
        ("nats://a:1,b:2/", ["nats://a:1", "nats://b:2"]),
        ("tls://u:p@a,b:2", ["tls://a:4222", "tls://b:2"]),
        ("nats://[::1]", ["nats://[::1]:4222"]),
        ("nats://[::1]:5", ["nats://[::1]:5"]),
    ],
)
def test_several_servers_stand_in_one_url(url, servers):
    assert list(read_url(url).servers) == servers


@pytest.mark.parametrize(
    ("url", "login"),
    [
        ("nats://a", {}),
        ("nats://us%40er:p%2Fss@a", {"user": "us@er", "password": "p/ss"}),
        ("nats://s3cr%40t@a", {"token": "s3cr@t"}),
    ],
)
def test_a_login_is_percent_decoded(url, login):
    assert read_url(url).login == login


def test_the_label_shows_no_login():
    backend = NatsBackend("nats://user:s3cret@a:1,b/?remember=1h")

    assert backend.label == "nats://a:1,b:4222"
    assert "s3cret" not in repr(backend)
    assert "s3cret" not in repr(read_url("nats://s3cret@a"))


def test_claims_are_remembered_for_a_day_or_as_long_as_the_url_says():
    minute, day = timedelta(minutes=1), timedelta(days=1)

    assert NatsBackend("nats://a").remembers(minute) == day
    assert NatsBackend("nats://a").remembers(day) == 2 * day + minute
    assert NatsBackend("nats://a?remember=90s").remembers(minute) == 3 * minute
    assert NatsBackend("nats://a?remember=1h").remembers(minute) == timedelta(hours=1)


@pytest.mark.parametrize(
    ("url", "option", "fix"),
    [
        ("nats://a/db", "store", "nats://HOST:PORT"),
        ("nats://", "store", "percent-encode"),
        ("nats://a:b", "store", "percent-encode"),
        ("nats://a,,b", "store", "percent-encode"),
        ("nats://a:99999", "store", "percent-encode"),
        ("nats://u:s3cr/et@a", "store", "percent-encode"),
        ("nats://u:s3cr@et@a", "store", "percent-encode"),
        ("nats://u:s3cr#et@a", "store", "percent-encode"),
        ("nats://a?mode=kv", "store", "known are creds, nkey, remember, replicas"),
        ("nats://a?tls_ca_certs=x", "store", "tls://"),
        ("nats://a?replicas=two", "replicas", "write 1, 3 or 5"),
        ("nats://a?replicas=", "replicas", "write 1, 3 or 5"),
        ("nats://a?remember=soon", "remember", "10s"),
        ("nats://a?remember=0s", "remember", ""),
        ("nats://a?creds=/no/such", "creds", "name a file"),
        ("nats://a?nkey=/no/such", "nkey", "name a file"),
        ("nats://a?creds=/dev/null", "creds", "nsc generate creds"),
        ("nats://a?nkey=/dev/null", "nkey", "begins with SU"),
        ("tls://a?tls_ca_certs=/no/such", "store", "tls_ca_certs"),
        ("tls://a?tls_handshake_first=1", "tls_handshake_first", "true or false"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_with_what_to_write(url, option, fix):
    with pytest.raises(ConfigurationError) as raised:
        open_backend(url)

    assert raised.value.option == option
    assert fix in (raised.value.fix or "")
    assert "s3cr" not in "".join(traceback.format_exception(raised.value))


def test_what_a_key_file_holds_is_not_shown(tmp_path):
    seed = tmp_path / "seed"
    seed.write_text("SUs3cret")

    with pytest.raises(ConfigurationError) as raised:
        open_backend(f"nats://a?nkey={seed}")

    assert "s3cret" not in "".join(traceback.format_exception(raised.value))
