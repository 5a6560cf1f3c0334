"""Brings the schema of a store to the version this package knows."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

import asyncpg

from anarchon.backends.postgres.settings import Settings
from anarchon.errors import SchemaMismatch, StoreError, StoreRefused

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]


#: The oldest that the suite of tests runs on.
OLDEST = 15


@cache
def migrations() -> tuple[str, ...]:
    """Return all migrations, in order; the version of a schema is how many it has seen."""
    folder = files(__package__) / "migrations"
    scripts = sorted((f for f in folder.iterdir() if f.name.endswith(".sql")), key=lambda f: f.name)
    return tuple(script.read_text(encoding="utf-8") for script in scripts)


async def bring_up_to_date(connection: Connection, settings: Settings) -> None:
    """Check that this server can grant leases, and run the migrations its schema lacks.

    A connection on which this failed is in no state to be used again.
    """
    refuse_an_old_one(connection, settings)
    if await _is_as_usual(connection, settings):
        return
    await refuse_a_standby(connection, settings)
    if await is_current(connection, settings):
        return
    try:
        await _migrate(connection, settings)
    except asyncpg.InsufficientPrivilegeError as error:
        raise not_up_to_date(settings, str(error)) from error


def not_up_to_date(settings: Settings, why: str) -> StoreError:
    """Return the error for who may not bring the schema to this version."""
    return StoreError(
        settings.label,
        f"{why}; schema {settings.schema} is not up to date: let its owner open it once",
    )


def refuse_an_old_one(connection: Connection, settings: Settings) -> None:
    """Raise ``StoreError`` for a server that nobody has tried this on."""
    version = connection.get_server_version()
    if version.major < OLDEST:
        raise StoreError(
            settings.label,
            f"PostgreSQL {version.major} is too old; upgrade it to {OLDEST} or later",
        )


async def refuse_a_standby(connection: Connection, settings: Settings) -> None:
    """Raise ``StoreRefused`` for a server that only follows another one."""
    if await connection.fetchval("select pg_is_in_recovery()"):
        raise StoreRefused(
            settings.label, "is a standby, which can grant nothing; name the primary"
        )


async def _is_as_usual(connection: Connection, settings: Settings) -> bool:
    """Tell in one round trip whether this is no standby, and its schema is of our version.

    The driver needs two of them for what has rows or arguments; the tag of a statement that
    has neither still counts its rows.
    """
    try:
        tag = await connection.execute(
            f"select from {settings.quoted_schema}.migration"
            f" having max(version) = {len(migrations())} and not pg_is_in_recovery()"
        )
    except asyncpg.UndefinedTableError:
        return False
    return tag == "SELECT 1"


async def _migrate(connection: Connection, settings: Settings) -> None:
    await connection.execute("begin isolation level read committed")
    await connection.fetchval(
        "select pg_advisory_xact_lock(hashtextextended('anarchon ' || $1, 0))", settings.schema
    )
    # another instance may have done it while we waited
    if not await is_current(connection, settings):
        if not await connection.fetchval(
            "select exists (select from pg_namespace where nspname = $1)", settings.schema
        ):
            await connection.execute(f"create schema {settings.quoted_schema}")
        await connection.execute(f"set local search_path to {settings.quoted_schema}, pg_temp")
        await connection.execute(
            "create table if not exists migration (version int primary key,"
            " applied timestamptz not null default clock_timestamp())"
        )
        found = await _version(connection, settings)
        for version, script in enumerate(migrations()[found:], start=found + 1):
            await connection.execute(
                f"{script}\ninsert into migration (version) values ({version})"
            )
    await connection.execute("commit")


async def is_current(connection: Connection, settings: Settings) -> bool:
    """Tell whether the schema is of this version; raises ``SchemaMismatch`` for a later one."""
    found, known = await _version(connection, settings), len(migrations())
    if found > known:
        raise SchemaMismatch(
            settings.label,
            f"schema {settings.schema} is of version {found}, this anarchon knows {known};"
            " upgrade it here, too",
        )
    return found == known


async def _version(connection: Connection, settings: Settings) -> int:
    table = f"{settings.quoted_schema}.migration"
    if not await connection.fetchval("select to_regclass($1) is not null", table):
        return 0
    version: int = await connection.fetchval(f"select coalesce(max(version), 0) from {table}")
    return version
