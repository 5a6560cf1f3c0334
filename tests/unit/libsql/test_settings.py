"""What a URL says, and what it must not."""

from __future__ import annotations

import sys

import pytest

from anarchon.backends import open_backend
from anarchon.backends.libsql import LibSQLBackend
from anarchon.backends.libsql.settings import Settings
from anarchon.errors import ConfigurationError, MissingExtra


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("libsql://db.example", "https://db.example"),
        ("libsql://db.example:8443", "https://db.example:8443"),
        ("libsql://db.example?tls=1", "https://db.example"),
        ("libsql://db.example:8080?tls=0", "http://db.example:8080"),
        ("http+libsql://db.example:8080", "http://db.example:8080"),
        ("http+libsql://db.example:8080?tls=0", "http://db.example:8080"),
        ("https+libsql://db.example", "https://db.example"),
        ("LIBSQL://DB.example", "https://db.example"),
        (" libsql://db.example/ ", "https://db.example"),
        ("http+libsql://[::1]:8080", "http://[::1]:8080"),
        ("http+libsql://db.example:8080/dev/shop", "http://db.example:8080/dev/shop"),
    ],
)
def test_a_url_leads_to_an_address(url, base):
    assert Settings.of(url).base == base


def test_a_token_comes_from_the_query():
    assert Settings.of("libsql://db.example?authToken=a.b-c_d%2F").token == "a.b-c_d/"
    assert Settings.of("libsql://db.example?authToken=").token is None
    assert Settings.of("libsql://db.example").token is None


def test_a_token_is_shown_nowhere():
    url = "libsql://db.example/path?authToken=s3cret"
    backend = open_backend(url)
    store = backend.connect("default")

    assert backend.label == "libsql://db.example/path"
    assert Settings.of("libsql://db.example:1?tls=0").label == "http+libsql://db.example:1"
    for shown in (backend, backend.label, store, store.label, Settings.of(url)):
        assert "s3cret" not in repr(shown)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("libsql://", "no host"),
        ("libsql:///path", "no host"),
        ("libsql:s3cret", "no host"),
        ("libsql://db.example?tls=0", "port"),
        ("http+libsql://db.example", "port"),
        ("libsql://db.example?tls=s3cret", "tls"),
        ("https+libsql://db.example?tls=0", "tls"),
        ("http+libsql://db.example:1?tls=1", "tls"),
        ("libsql://user:s3cret@db.example", "token"),
        ("libsql://s3cret@db.example", "token"),
        ("libsql://db.example:s3cret", "cannot be read"),
        ("libsql://db.example?authtoken=s3cret", "option"),
        ("libsql://db.example?s3cret=1", "option"),
        ("libsql://db.example?authToken=a&authToken=s3cret", "twice"),
        ("libsql://db.example?authToken=a#s3cret", "#"),
        ("libsql://[s3cret", "cannot be read"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_and_not_quoted(url, problem):
    with pytest.raises(ConfigurationError) as refused:
        LibSQLBackend(url)

    assert problem in refused.value.problem
    assert refused.value.option == "store"
    assert refused.value.fix
    assert "s3cret" not in str(refused.value)


def test_the_scheme_of_another_store_is_refused():
    with pytest.raises(ConfigurationError):
        LibSQLBackend("sqlite:///jobs.db")


@pytest.mark.parametrize("scheme", ["libsql", "http+libsql", "https+libsql"])
def test_without_the_driver_the_line_to_type_is_told(monkeypatch, scheme):
    for module in [m for m in sys.modules if m.startswith(("anarchon.backends.libsql", "aiohttp"))]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "aiohttp", None)

    with pytest.raises(MissingExtra) as missing:
        open_backend(f"{scheme}://db.example:1")

    assert missing.value.fix == "type: pip install 'anarchon[libsql]'"
