"""What a store's URL may say, and what is shown of it."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest

from anarchon.backends import open_backend
from anarchon.backends.postgres import PostgresBackend
from anarchon.backends.postgres.settings import Settings
from anarchon.errors import ConfigurationError

SECRET = "s3cret"


@pytest.mark.parametrize("scheme", ["postgres", "postgresql"])
def test_both_schemes_lead_here(scheme):
    assert isinstance(open_backend(f"{scheme}://h/db"), PostgresBackend)


@pytest.mark.parametrize(
    ("url", "label"),
    [
        ("postgres://h/db", "postgresql://h/db"),
        ("postgresql://me:s3cret@h:6543/db", "postgresql://me@h:6543/db"),
        ("postgresql://me:s3cret@h1:1,h2:2/db", "postgresql://me@h1:1,h2:2/db"),
        ("postgresql://me:s3cret@[::1]:6543/db", "postgresql://me@[::1]:6543/db"),
        ("postgresql://h/db?user=me&password=s3cret", "postgresql://me@h/db"),
        ("postgresql://h/db?user=me@x&password=s3cr@et", "postgresql://me@x@h/db"),
        ("postgresql:///db?host=/run/pg&sslpassword=s3cret", "postgresql:///run/pg/db"),
        ("postgresql://h?dbname=db&schema=jobs", "postgresql://h/db?schema=jobs"),
        ("postgresql://:s3cret@h/db", "postgresql://h/db"),
    ],
)
def test_the_label_names_the_place_and_no_password(url, label):
    backend = PostgresBackend(url)

    assert backend.label == label
    assert backend.connect("n").label == label
    assert SECRET not in repr(backend)
    assert SECRET not in repr(backend.connect("n"))
    assert SECRET not in repr(Settings.of(url))


def test_the_schema_stands_in_the_url_or_beside_it():
    assert Settings.of("postgres://h/db").schema == "anarchon"
    assert Settings.of("postgres://h/db?schema=jobs").schema == "jobs"
    assert Settings.of("postgres://h/db", "jobs").schema == "jobs"
    assert Settings.of("postgres://h/db?schema=jobs", "jobs").schema == "jobs"


def test_an_odd_schema_is_quoted():
    assert Settings.of("postgres://h/db", 'Jobs "1"').quoted_schema == '"Jobs ""1"""'


def test_what_is_ours_is_not_passed_on():
    settings = Settings.of("postgres://h/db?schema=jobs&connect_timeout=7&sslmode=require")

    assert parse_qs(urlsplit(settings.url).query) == {
        "sslmode": ["require"],
        "application_name": ["anarchon"],
    }
    assert settings.connect_timeout == 7


def test_what_the_driver_takes_is_passed_on():
    url = "postgres://me:p%40ss@h1,h2/db?target_session_attrs=read-write&application_name=web"

    assert Settings.of(url).url == url


@pytest.mark.parametrize(
    ("url", "option"),
    [
        ("postgres://me:s3/cret@h/db", "store"),
        ("postgres://me:12/s3cret@h/db", "store"),
        ("postgres://me:s3cret@9@h/db", "store"),
        ("postgres://me:s3#cret@h/db", "store"),
        ("postgres://me:1#s3cret@h/db", "store"),
        ("postgres://me:s3?cret@h/db", "store"),
        ("postgres://me:1?s3cret@h/db?a=b", "store"),
        ("postgres://me:1?s3cret=x@h/db", "store"),
        ("postgres://me:s3cret@h:port/db", "store"),
        ("postgres://me:s3cret@h/db?channel_binding=require", "store"),
        ("postgres://me:s3cret@h/db?connect_timeout=soon", "connect_timeout"),
        ("postgres://me:s3cret@h/db?schema=pg_jobs", "schema"),
        ("postgres://me:s3cret@h/db?schema=" + "x" * 64, "schema"),
        ("mysql://me:s3cret@h/db", "store"),
        ("postgres://me:1[s3cret]x@h/db", "store"),
        ("postgres://me:s3cret\u2100@h/db", "store"),
        ("postgres://[::1", "store"),
    ],
)
def test_what_cannot_be_read_is_refused_without_repeating_it(url, option):
    with pytest.raises(ConfigurationError) as raised:
        PostgresBackend.from_url(url)

    assert raised.value.option == option
    assert raised.value.fix
    assert raised.value.__context__ is None or raised.value.__suppress_context__
    assert "s3" not in str(raised.value)
    assert "cret" not in str(raised.value)


def test_two_schemas_are_refused():
    with pytest.raises(ConfigurationError):
        PostgresBackend("postgres://h/db?schema=one", schema="two")
