"""What every test can ask for."""

from collections.abc import Iterator

import pytest

from tests.servers import Servers, ServersForTests, required_names


def pytest_configure() -> None:
    """Refuse a misspelt `ANARCHON_REQUIRE_BACKENDS`, which would require nothing."""
    try:
        required_names()
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None


@pytest.fixture(scope="session")
def servers() -> Iterator[ServersForTests]:
    """Real servers, started when first asked for and stopped at the end of the session."""
    with Servers() as servers:
        yield ServersForTests(servers)
