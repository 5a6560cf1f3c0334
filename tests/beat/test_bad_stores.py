"""A store that cannot serve is told in one line, by `check` before anything runs."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest

from anarchon import Scheduler
from anarchon.backends.postgres import schema
from tests.beat.conftest import Beat
from tests.contract.harness_postgres import grants
from tests.servers import ServersForTests
from tests.servers.postgres import PostgresServer

Declared = Callable[[Scheduler], str]
POSTGRES = pytest.mark.xdist_group("postgres-18")


def assert_refused(beat: Beat, name: str, problem: str, code: int = 2) -> None:
    """`check` and `history` tell the same, each in one line."""
    checked, history = beat("-A", name, "check"), beat("-A", name, "history")

    errors = [line for line in checked.out.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert errors[0].startswith("error: store ")
    assert problem in errors[0]
    assert (checked.code, checked.err) == (code, "")
    assert (history.code, history.out) == (code, "")
    assert history.err.startswith("anarchon-beat: store ")
    assert history.err.count("\n") == 1


# ---------------------------------------------------------------- before anything is connected


@pytest.mark.parametrize(
    ("store", "told"),
    [
        ("oracle://host/db", "no backend answers to oracle://; use one of memory://, "),
        ("jobs.db", "no backend answers to a URL without a scheme; use one of memory://, "),
        ("sqlite:///jobs.db?synchronous=off", "synchronous"),
        ("sqlite:///jobs.db?mode=fast", "mode"),
        ("postgresql://h/db?sslmode=on", "sslmode: there is no 'on'; use one of disable, "),
        ("postgresql://h/db?sslrootcert=gone.crt", "sslrootcert: the file gone.crt cannot be read"),
        ("postgresql://h/db?connect_timeout=soon", "connect_timeout: is not a whole number"),
        ("postgresql://u:p/w@h/db", "the URL cannot be read; write it as SCHEME://"),
    ],
)
def test_a_url_that_cannot_serve_is_told_with_what_to_write(
    beat: Beat, store: str, told: str
) -> None:
    checked = beat("-A", "tests.beat.projects:app", "--store", store, "check", "--offline")
    history = beat("-A", "tests.beat.projects:app", "--store", store, "history")

    (error,) = [line for line in checked.out.splitlines() if line.startswith("error: ")]
    assert told in error
    assert told in history.err
    assert history.err.count("\n") == 1
    assert (checked.code, history.code) == (2, 2)


# ---------------------------------------------------------------- SQLite


def test_a_file_in_no_folder_is_told(beat: Beat, declared: Declared, tmp_path: Path) -> None:
    scheduler = Scheduler(f"sqlite:///{tmp_path}/gone/jobs.db")

    assert_refused(beat, declared(scheduler), f"the folder {tmp_path}/gone does not exist")


def test_a_folder_in_place_of_a_file_is_told(
    beat: Beat, declared: Declared, tmp_path: Path
) -> None:
    assert_refused(beat, declared(Scheduler(f"sqlite:///{tmp_path}")), "is a folder, not a file")


def test_a_file_that_is_no_database_is_told(beat: Beat, declared: Declared, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("buy milk, and a database\n" * 50)
    scheduler = Scheduler(f"sqlite:///{tmp_path}/notes.txt")

    assert_refused(beat, declared(scheduler), "file is not a database")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
def test_a_file_without_the_right_to_write_is_told(
    beat: Beat, declared: Declared, tmp_path: Path
) -> None:
    (tmp_path / "jobs.db").touch(mode=0o400)
    scheduler = Scheduler(f"sqlite:///{tmp_path}/jobs.db")

    assert_refused(beat, declared(scheduler), "may not be read and written by this user")


def test_a_file_of_a_later_version_is_told(beat: Beat, declared: Declared, tmp_path: Path) -> None:
    scheduler = Scheduler(f"sqlite:///{tmp_path}/jobs.db")
    asyncio.run(scheduler.history("any"))
    with sqlite3.connect(tmp_path / "jobs.db") as connection:
        connection.execute("update anarchon_schema set version = 99")
    connection.close()

    assert_refused(beat, declared(scheduler), "version 99")


# ---------------------------------------------------------------- PostgreSQL


@dataclass(frozen=True)
class Databases:
    """A server with a database that is prepared; ``name`` is that of a role, too."""

    server: PostgresServer
    name: str

    def url(self, user: str = "postgres", **place: str) -> str:
        return self.server.url(place.get("database", self.name), user=user)

    def execute(self, *statements: str, user: str = "postgres") -> None:
        async def carried_out() -> None:
            connection = await asyncpg.connect(self.url(user))
            for statement in statements:
                await connection.execute(statement)
            await connection.close()

        asyncio.run(carried_out())


@pytest.fixture
def databases(servers: ServersForTests) -> Iterator[Databases]:
    server = servers.get("postgres-18")
    assert isinstance(server, PostgresServer)
    root, made = Databases(server, "postgres"), Databases(server, f"bad_{secrets.token_hex(4)}")
    root.execute(f"create database {made.name}", f"create role {made.name} login")
    yield made
    root.execute(f"drop database {made.name} with (force)", f"drop role {made.name}")


@pytest.fixture
def prepared(databases: Databases) -> Databases:
    asyncio.run(Scheduler(databases.url()).history("any"))
    databases.execute(grants(databases.name))
    return databases


@POSTGRES
def test_a_role_with_the_least_rights_is_told_nothing(
    beat: Beat, declared: Declared, prepared: Databases
) -> None:
    checked = beat("-A", declared(Scheduler(prepared.url(prepared.name))), "check")

    assert "error" not in checked.out.partition("\n")[0]


@POSTGRES
@pytest.mark.parametrize(
    ("missing", "told"),
    [
        ("update on anarchon.run", "let the owner grant update on anarchon.run"),
        ("delete on anarchon.attempt", "let the owner grant delete on anarchon.attempt"),
        ("all on anarchon.job", "select on anarchon.job, insert on anarchon.job, update on"),
    ],
)
def test_a_missing_right_is_told_with_its_table_before_anything_runs(
    beat: Beat, declared: Declared, prepared: Databases, missing: str, told: str
) -> None:
    prepared.execute(f"revoke {missing} from {prepared.name}")

    checked = beat("-A", declared(Scheduler(prepared.url(prepared.name))), "check")

    assert checked.code == 2
    assert told in checked.out.splitlines()[0]


@POSTGRES
@pytest.mark.parametrize(
    ("missing", "told"),
    [
        ("select on anarchon.migration", "permission denied for table migration"),
        ("usage on schema anarchon", "permission denied for schema anarchon"),
    ],
)
def test_a_right_that_is_needed_to_look_is_told_too(
    beat: Beat, declared: Declared, prepared: Databases, missing: str, told: str
) -> None:
    prepared.execute(f"revoke {missing} from {prepared.name}")

    assert_refused(beat, declared(Scheduler(prepared.url(prepared.name))), told)


@POSTGRES
def test_a_role_that_may_not_make_the_schema_is_told(
    beat: Beat, declared: Declared, databases: Databases
) -> None:
    told = "schema anarchon is not up to date: let its owner open it once"

    assert_refused(beat, declared(Scheduler(databases.url(databases.name))), told)


@POSTGRES
def test_a_database_that_is_not_there_is_told(
    beat: Beat, declared: Declared, databases: Databases
) -> None:
    scheduler = Scheduler(databases.url(database="no_such_thing"))

    assert_refused(beat, declared(scheduler), 'database "no_such_thing" does not exist')


@POSTGRES
def test_a_schema_of_a_later_version_is_told(
    beat: Beat, declared: Declared, prepared: Databases
) -> None:
    prepared.execute("insert into anarchon.migration (version) values (99)")

    assert_refused(beat, declared(Scheduler(prepared.url())), "is of version 99")


@POSTGRES
def test_a_server_that_is_too_old_is_told(
    beat: Beat, declared: Declared, databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    # no older one than those that do can be had
    monkeypatch.setattr(schema, "OLDEST", 99)

    assert_refused(
        beat, declared(Scheduler(databases.url())), "is too old; upgrade it to 99 or later"
    )


@POSTGRES
def test_a_wrong_password_and_a_role_that_is_not_there_are_told(
    beat: Beat, declared: Declared, servers: ServersForTests
) -> None:
    server = servers.start("postgres-18")
    assert isinstance(server, PostgresServer)
    server.let_in("host all all all scram-sha-256")
    wrong = Scheduler(server.url(password="guessed"))

    assert_refused(beat, declared(wrong), 'password authentication failed for user "postgres"')

    server.stop()


def test_a_host_that_is_not_there_is_told(beat: Beat, declared: Declared) -> None:
    scheduler = Scheduler("postgresql://me:hunter2@no-such-host.invalid/db")

    assert_refused(beat, declared(scheduler), "its host cannot be found")


def test_a_server_that_is_not_there_has_the_exit_code_of_one_that_is_away(
    beat: Beat, declared: Declared
) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"postgresql://127.0.0.1:{nobody.getsockname()[1]}/db"

        assert_refused(beat, declared(Scheduler(url)), "no server listens there", code=3)


# ---------------------------------------------------------------- where it was set


@pytest.mark.parametrize(
    ("setting", "options", "place"),
    [
        ("anarchon_store = 'sqlite:///gone/x.db'", (), " (anarchon_store): "),
        ("anarchon_store = 'memory://'", ("--store", "sqlite:///gone/x.db"), " (--store): "),
        ("broker_url = 'redis://127.0.0.1:1/0'", (), " (broker_url): "),
        ("result_backend = 'redis://127.0.0.1:1/0'", (), " (result_backend): "),
    ],
)
def test_a_store_is_told_with_what_names_it(
    beat: Beat, tmp_path: Path, setting: str, options: tuple[str, ...], place: str
) -> None:
    (tmp_path / "proj.py").write_text(
        f"from celery import Celery\napp = Celery('proj', broker='memory://')\napp.conf.{setting}\n"
    )

    told = beat("-A", "proj", *options, "history")

    assert told.code in (2, 3)
    assert told.err.startswith("anarchon-beat: store ")
    assert place in told.err


def test_the_default_is_told_as_such(beat: Beat, tmp_path: Path) -> None:
    (tmp_path / "proj.py").write_text(
        "from celery import Celery\napp = Celery('proj', broker='memory://')\n"
    )
    (tmp_path / "anarchon.db").mkdir()

    told = beat("-A", "proj", "history")

    assert told.err.splitlines()[-1] == (
        f"anarchon-beat: store sqlite:///{tmp_path}/anarchon.db (the default): it is a folder, not"
        " a file"
    )
