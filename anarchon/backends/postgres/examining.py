"""A look at the server that leaves its schema as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import asyncpg

from anarchon.backends.postgres.faults import translating
from anarchon.backends.postgres.schema import (
    is_current,
    not_up_to_date,
    refuse_a_standby,
    refuse_an_old_one,
)
from anarchon.backends.postgres.settings import Settings
from anarchon.clock import SystemClock
from anarchon.errors import StoreRefused
from anarchon.standing import Standing

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

#: What a role needs to keep leases, and to see that the schema is of this version.
_NEEDED = {
    "migration": ("select",),
    **dict.fromkeys(("job", "edition", "run", "attempt"), ("select", "insert", "update", "delete")),
}


async def examine(settings: Settings) -> Standing:
    """Say how the server stands; raises ``StoreError``."""
    with translating(settings.label, asked=False):
        async with SystemClock().timeout(settings.connect_timeout):
            connection = await asyncpg.connect(
                settings.url, timeout=settings.connect_timeout, statement_cache_size=0
            )
            try:
                refuse_an_old_one(connection, settings)
                await refuse_a_standby(connection, settings)
                return await _standing(connection, settings)
            finally:
                connection.terminate()


async def _standing(connection: Connection, settings: Settings) -> Standing:
    prepared = await is_current(connection, settings)
    if prepared:
        await _refuse_without_rights(connection, settings)
    else:
        await _refuse_who_may_not_prepare(connection, settings)
    version = str(await connection.fetchval("show server_version")).split()[0]
    return Standing(f"PostgreSQL {version}", prepared)


async def _refuse_without_rights(connection: Connection, settings: Settings) -> None:
    """Raise for a role that may not do something in the tables, and name it."""
    lacking = await connection.fetch(
        "select name, wanted from unnest($1::text[], $2::text[]) as needed (name, wanted)"
        " where not has_table_privilege($3 || '.' || name, wanted)",
        [name for name, rights in _NEEDED.items() for _ in rights],
        [right for rights in _NEEDED.values() for right in rights],
        settings.quoted_schema,
    )
    if lacking:
        named = ", ".join(f"{row['wanted']} on {settings.schema}.{row['name']}" for row in lacking)
        raise StoreRefused(settings.label, f"this role lacks rights: let the owner grant {named}")


async def _refuse_who_may_not_prepare(connection: Connection, settings: Settings) -> None:
    """Raise for a role that may not make the schema, or what is missing in it."""
    may_create = await connection.fetchval(
        "select case when to_regnamespace($1) is null"
        " then has_database_privilege(current_database(), 'create')"
        " else has_schema_privilege(to_regnamespace($1)::oid, 'create') end",
        settings.quoted_schema,
    )
    if not may_create:
        raise not_up_to_date(settings, "this role may not create what is missing")
