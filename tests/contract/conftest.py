"""One suite over all backends: each test runs once for each harness."""

from __future__ import annotations

from functools import partial
from importlib import import_module

import pytest
from _pytest.mark import ParameterSet

from anarchon_contract.leases.fixtures import *  # noqa: F403
from anarchon_contract.leases.harness import OpenHarness, OpenHeldHarness

#: Backend: the module that has its ``open_harness``. It is imported for its own tests only.
HARNESSES = {
    "memory": "anarchon_contract.leases.model",
    **dict.fromkeys(
        ("redis-7.0", "redis-8.0", "valkey-8.0", "valkey-9"), "tests.contract.harness_redis"
    ),
    **dict.fromkeys(
        ("sentinel", "sentinel-redis", "cluster", "cluster-valkey"),
        "tests.contract.harness_redis_sets",
    ),
    "sqlite": "tests.contract.harness_sqlite",
    **dict.fromkeys(
        ("postgres-15", "postgres-18", "postgres-18-behind-pgbouncer-1.18"),
        "tests.contract.harness_postgres",
    ),
    "sqld": "tests.contract.harness_libsql",
}

#: One version of each kind is enough for every day.
ONLY_IN_SOAK = {
    "redis-7.0",
    "valkey-8.0",
    "sentinel-redis",
    "cluster-valkey",
    "postgres-15",
    "postgres-18-behind-pgbouncer-1.18",
}


def params() -> list[ParameterSet]:
    """Return the names of the harnesses, each for the one process that starts its server."""
    return [pytest.param(name, marks=_marks(name)) for name in HARNESSES]


def _marks(name: str) -> list[pytest.MarkDecorator]:
    soak = [pytest.mark.soak] if name in ONLY_IN_SOAK else []
    return [pytest.mark.xdist_group(name), *soak]


@pytest.fixture(scope="session", params=params())
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def open_harness(backend: str) -> OpenHarness:
    return partial(import_module(HARNESSES[backend]).open_harness, backend)


@pytest.fixture(scope="session")
def open_held_harness(backend: str) -> OpenHeldHarness | None:
    # the model is the store in memory itself: it would be compared with itself
    if backend == "memory":
        return None
    return partial(import_module(HARNESSES[backend]).open_held_harness, backend)
