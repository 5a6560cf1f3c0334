"""What every test can ask for."""

from collections.abc import Callable, Iterator

import pytest

from tests.servers import Server, Servers, Unavailable, is_required, required_names


def pytest_configure() -> None:
    """Refuse a misspelt `ANARCHON_REQUIRE_BACKENDS`, which would require nothing."""
    try:
        required_names()
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None


class ServersForTests:
    """`Servers`, where one that cannot be had skips the test, or fails it when it is required."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    def get(self, name: str) -> Server:
        """Return the shared server of that name, running."""
        return self._or_skip(name, lambda: self._servers.get(name))

    def start(self, name: str, *options: str) -> Server:
        """Start a server for this caller alone, which may kill, pause and restart it."""
        return self._or_skip(name, lambda: self._servers.start(name, options))

    @staticmethod
    def _or_skip(name: str, ask: Callable[[], Server]) -> Server:
        try:
            return ask()
        except Unavailable as error:
            reason = f"{name}: {error}"
        if is_required(name):
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)


@pytest.fixture(scope="session")
def servers() -> Iterator[ServersForTests]:
    """Real servers, started when first asked for and stopped at the end of the session."""
    with Servers() as servers:
        yield ServersForTests(servers)
