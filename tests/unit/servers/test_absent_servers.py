"""What a test hears whose server cannot be had."""

import pytest

from tests.servers import Servers, ServersForTests, Unavailable, pool


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> ServersForTests:
    """Servers on a machine that can fetch none."""

    def refuse(name: str) -> None:
        raise Unavailable("no network")

    monkeypatch.setattr(pool, "fetch", refuse)
    return ServersForTests(Servers())


def test_an_absent_server_skips_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, without: ServersForTests
) -> None:
    monkeypatch.setenv("ANARCHON_REQUIRE_BACKENDS", "redis")

    with pytest.raises(pytest.skip.Exception, match="postgres-18: no network"):
        without.get("postgres-18")


def test_an_absent_server_that_is_required_fails(
    monkeypatch: pytest.MonkeyPatch, without: ServersForTests
) -> None:
    monkeypatch.setenv("ANARCHON_REQUIRE_BACKENDS", "postgres")

    # a skip would go through, and count as skipped
    either = (pytest.fail.Exception, pytest.skip.Exception)
    with pytest.raises(either, match="postgres-18: no network") as told:
        without.get("postgres-18")
    assert told.type is pytest.fail.Exception


def test_what_may_vanish_from_its_source_is_required_by_its_name_alone(
    monkeypatch: pytest.MonkeyPatch, without: ServersForTests
) -> None:
    monkeypatch.setenv("ANARCHON_REQUIRE_BACKENDS", "all,redis")
    with pytest.raises(pytest.skip.Exception, match=r"redis-8\.6: no network"):
        without.get("redis-8.6")

    monkeypatch.setenv("ANARCHON_REQUIRE_BACKENDS", "redis-8.6")
    with pytest.raises(pytest.fail.Exception, match=r"redis-8\.6: no network"):
        without.get("redis-8.6")
