"""What a SQLite URL and the backend's settings may say."""

from __future__ import annotations

import os

import pytest

from anarchon.backends import open_backend
from anarchon.backends.sqlite import SQLiteBackend, SQLiteStore
from anarchon.errors import ConfigurationError


def test_three_slashes_lead_to_a_file_in_this_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert open_backend("sqlite:///some/store.db").label == f"sqlite:///{tmp_path}/some/store.db"


def test_four_slashes_lead_to_an_absolute_path():
    assert open_backend("sqlite:////srv/store.db").label == "sqlite:////srv/store.db"


def test_a_path_is_taken_as_it_is_written():
    label = open_backend("sqlite:////srv/50%25 #1 ñ.db?synchronous=normal").label

    assert label == "sqlite:////srv/50%25 #1 ñ.db"


def test_a_later_change_of_the_folder_leads_to_the_same_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    backend = SQLiteBackend("store.db")

    monkeypatch.chdir("/")

    assert backend.label == f"sqlite:///{tmp_path}/store.db"
    assert backend.connect("default").label == backend.label
    assert repr(backend) == f"<SQLiteBackend: {tmp_path}/store.db>"


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite:///?synchronous=full"]
)
def test_a_database_in_memory_is_refused_with_what_to_use_instead(url):
    with pytest.raises(ConfigurationError) as raised:
        open_backend(url)

    assert raised.value.option == "store"
    assert "memory://" in (raised.value.fix or "")


def test_a_path_in_memory_is_refused_too():
    with pytest.raises(ConfigurationError):
        SQLiteBackend(":memory:")


def test_a_url_with_a_host_is_refused_without_showing_its_password():
    with pytest.raises(ConfigurationError) as raised:
        open_backend("sqlite://someone:secret@host/store.db")

    assert "secret" not in str(raised.value)
    assert "sqlite:////absolute/path.db" in (raised.value.fix or "")


def test_an_unknown_option_is_refused_by_its_name():
    with pytest.raises(ConfigurationError) as raised:
        open_backend("sqlite:///store.db?synchronous=full&timeout=5")

    assert "'timeout'" in raised.value.problem
    assert "synchronous" in (raised.value.fix or "")


def test_an_unknown_value_of_synchronous_is_refused():
    with pytest.raises(ConfigurationError) as raised:
        open_backend("sqlite:///store.db?synchronous=off")

    assert "'off'" in raised.value.problem
    assert "full, normal" in (raised.value.fix or "")


def test_a_path_with_a_zero_byte_is_refused():
    with pytest.raises(ConfigurationError):
        SQLiteBackend("a\0b")


def test_making_a_backend_opens_nothing(tmp_path):
    SQLiteBackend(tmp_path / "store.db").connect("default")

    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("synchronous", "level"), [("full", 2), ("normal", 1)])
async def test_commits_are_as_durable_as_asked(path, synchronous, level):
    store = open_backend(f"sqlite:///{path}?synchronous={synchronous}").connect("default")
    assert isinstance(store, SQLiteStore)
    await store.open()
    connection = store._database._connection
    assert connection is not None

    def settings():
        return [
            connection.execute(f"pragma {name}").fetchone()[0]
            for name in ("synchronous", "journal_mode")
        ]

    assert await store._thread.run(settings) == [level, "wal"]
    await store.close()
