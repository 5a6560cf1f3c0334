"""Stores and benches of one test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.celery.tracked import TestStore
from tests.dramatiq.bench import Bench, Switched


@pytest.fixture
def store(tmp_path: Path) -> TestStore:
    return TestStore(f"sqlite:///{tmp_path}/store.db")


@pytest.fixture
def switched(store: TestStore) -> Switched:
    return Switched(store.url)


Make = Callable[..., Bench]


@pytest.fixture
def make(store: TestStore) -> Iterator[Make]:
    """Make a bench whose worker is stopped at the end."""
    made: list[Bench] = []

    def bench(*arguments: object, **options: object) -> Bench:
        given = arguments if arguments else (store.url,)
        made.append(Bench(*given, **options))  # type: ignore[arg-type]
        return made[-1]

    yield bench
    for each in made:
        each.stop()


@pytest.fixture
def bench(make: Make) -> Bench:
    return make()
