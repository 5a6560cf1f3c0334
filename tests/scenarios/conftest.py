"""What every scenario starts from."""

import pytest

from tests.engine.bodies import Bodies


@pytest.fixture
def bodies() -> Bodies:
    return Bodies()
