"""One suite over all claim-only backends: each test runs once for each harness."""

from __future__ import annotations

from functools import partial
from importlib import import_module

import pytest

from anarchon_contract.claims.fixtures import *  # noqa: F403
from anarchon_contract.claims.harness import OpenHarness

#: Backend: the module that has its ``open_harness``. It is imported for its own tests only.
HARNESSES = {
    "memory": "tests.claims.harness_memory",
    **dict.fromkeys(
        (
            *(f"redis-8.6 {mode}" for mode in ("script", "stream-id", "idmp")),
            *(
                f"{server} {mode}"
                for server in ("redis-7.0", "redis-8.0", "valkey-8.0", "valkey-9")
                for mode in ("script", "stream-id")
            ),
            *("sentinel script", "cluster script", "cluster-valkey stream-id", "cluster-8.6 idmp"),
        ),
        "tests.claims.harness_redis",
    ),
    **dict.fromkeys(("nats-2.9", "nats-2.15"), "tests.claims.harness_nats"),
    **dict.fromkeys(
        (
            "rabbitmq-3.10",
            "rabbitmq-3.10 quorum",
            "rabbitmq-4",
            "rabbitmq-4 quorum",
            "rabbitmq-4 khepri",
        ),
        "tests.claims.harness_rabbitmq",
    ),
}
#: Further versions of a server: only with the soak.
SOAKED = frozenset(
    name
    for name in HARNESSES
    if name.startswith(("redis-7.0", "redis-8.0", "valkey-", "sentinel", "cluster", "nats-2.9"))
    or (name.startswith("rabbitmq-") and name != "rabbitmq-4")
)

#: One parameter a backend. A server is then started by one of the processes only that share
#: the tests.
STORES = [
    pytest.param(
        name,
        marks=[
            pytest.mark.xdist_group(name.partition(" ")[0]),
            *([pytest.mark.soak] if name in SOAKED else []),
        ],
    )
    for name in HARNESSES
]


@pytest.fixture(scope="session", params=STORES)
def open_harness(request: pytest.FixtureRequest) -> OpenHarness:
    return partial(import_module(HARNESSES[request.param]).open_harness, request.param)
