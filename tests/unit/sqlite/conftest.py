"""A SQLite file of a test's own."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from anarchon.backends.sqlite import SQLiteBackend, SQLiteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SQLiteStore]:
    store = SQLiteBackend(path).connect("default")
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def other(path: Path, store: SQLiteStore) -> Iterator[sqlite3.Connection]:
    """Another user of the same file."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as connection:
        yield connection
