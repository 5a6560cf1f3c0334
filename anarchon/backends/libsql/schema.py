"""The tables, brought to the version this package knows by numbered migrations.

An edit of a migration that was released once changes nothing where it has run: add another one.
"""

from __future__ import annotations

from anarchon.backends.libsql.faults import StepFailed
from anarchon.backends.libsql.pipeline import AT_THE_PRIMARY, Pipeline, Step, transaction
from anarchon.backends.sqlrecords.tables import TABLES
from anarchon.errors import SchemaMismatch

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        *TABLES,
        # a new one with each write to anything of the job
        "alter table anarchon_job add column revision text not null default ''",
        # the one place where the clock is read
        "create view anarchon_clock as"
        " select cast(round(unixepoch('subsec') * 1000) as integer) as millis",
    ),
)

_VERSIONS = "create table if not exists anarchon_migration (version integer primary key)"


async def bring_up_to_date(pipeline: Pipeline, store: str) -> None:
    """Run the migrations that are missing, whoever else does at the same time."""
    while not await is_current(pipeline, store):
        await _migrate(pipeline, await _version(pipeline))


async def is_current(pipeline: Pipeline, store: str) -> bool:
    """Tell whether the tables are of this version; raises ``SchemaMismatch`` for a later one."""
    found, known = await _version(pipeline), len(MIGRATIONS)
    if found > known:
        raise SchemaMismatch(
            store,
            f"its tables are of version {found}, and this package knows {known}:"
            " update anarchon here, or use another database",
        )
    return found == known


async def _version(pipeline: Pipeline) -> int:
    try:
        ((version,),) = (
            await pipeline.run(
                [
                    Step("select coalesce(max(version), 0) from anarchon_migration"),
                    AT_THE_PRIMARY,
                ],
            )
        )[0]
    except StepFailed as error:
        if error.is_about_tables:
            return 0
        raise error.as_undone() from error
    return int(version)


async def _migrate(pipeline: Pipeline, found: int) -> None:
    statements = [_VERSIONS]
    for version, migration in enumerate(MIGRATIONS[found:], start=found + 1):
        # fails for whoever comes second, and their batch with it
        statements += [f"insert into anarchon_migration (version) values ({version})", *migration]
    try:
        await pipeline.run(transaction([Step(statement) for statement in statements]))
    except StepFailed as error:
        if "anarchon_migration.version" not in error.problem:
            raise error.as_undone() from error
