"""Brings the schema of a store to the version this package knows."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

import asyncpg

from anarchon.backends.postgres.settings import Settings
from anarchon.errors import SchemaMismatch, StoreError, StoreUnavailable

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]


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
    if await connection.fetchval("select pg_is_in_recovery()"):
        raise StoreUnavailable(
            settings.label, "is a standby, which can grant nothing; name the primary"
        )
    if await _is_current(connection, settings):
        return
    try:
        await _migrate(connection, settings)
    except asyncpg.InsufficientPrivilegeError as error:
        raise StoreError(
            settings.label,
            f"{error}; schema {settings.schema} is not up to date: let its owner open it once",
        ) from error


async def _migrate(connection: Connection, settings: Settings) -> None:
    await connection.execute("begin isolation level read committed")
    await connection.fetchval(
        "select pg_advisory_xact_lock(hashtextextended('anarchon ' || $1, 0))", settings.schema
    )
    # another instance may have done it while we waited
    if not await _is_current(connection, settings):
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
            await connection.execute(script)
            await connection.execute("insert into migration (version) values ($1)", version)
    await connection.execute("commit")


async def _is_current(connection: Connection, settings: Settings) -> bool:
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
