"""Mutants of what makes a look and its write one step in a libSQL server."""

from tests.mutants.mutant import Mutant, without

_LIBSQL = "anarchon/backends/libsql"


def _on_libsql(name: str, file: str, old: str, new: str, tests: str = "deciding") -> Mutant:
    return without(
        f"{name}, on libSQL", f"{_LIBSQL}/{file}", old, new, f"tests/unit/libsql/test_{tests}.py"
    )


LIBSQL = (
    _on_libsql(
        "the revision that a write depends on",
        "writes.py",
        "and revision = value ->> 1",
        "",
    ),
    _on_libsql(
        "a record that somebody else made first",
        "writes.py",
        "on conflict (namespace, name) do nothing",
        "on conflict (namespace, name) do update set revision = excluded.revision",
    ),
    _on_libsql(
        "rows of those jobs only that are written",
        "writes.py",
        " on namespace = ?1 and name = value ->> 0 and revision = ?2",
        " on namespace = ?1 and name = value ->> 0 and ?2 = ?2",
    ),
    _on_libsql(
        "the end of the time that a write counts for",
        "writes.py",
        "between ?3 and ?3 + {FRESH}",
        ">= ?3",
    ),
    _on_libsql(
        "a clock that was set back between look and write",
        "writes.py",
        "between ?3 and ?3 + {FRESH}",
        "<= ?3 + {FRESH}",
    ),
    _on_libsql(
        "what was written when a later look fails",
        "store.py",
        "                if wrote:",
        "                if False:",
    ),
    _on_libsql(
        "a look at the primary",
        "pipeline.py",
        "delete from anarchon_job where false",
        "select 1",
        "refusals",
    ),
    _on_libsql(
        "a commit of which nobody knows",
        "session.py",
        "if error.step == commit:",
        "if False:",
        "trouble",
    ),
    without(
        "an attempt to connect that outlives who waits for it",
        "anarchon/backends/connecting.py",
        "await asyncio.wait((attempt,))\n        return attempt.result()",
        "return await attempt",
        *(f"tests/unit/{store}/test_reconnecting.py" for store in ("redis", "postgres", "nats")),
        "tests/unit/libsql/test_trouble.py",
    ),
    without(
        "a call that comes again when connecting took its time",
        "anarchon/backends/connecting.py",
        "if self._calls_are_short and self._took > _LONG:",
        "if False:",
        *(f"tests/unit/{store}/test_reconnecting.py" for store in ("redis", "postgres", "nats")),
        "tests/unit/libsql/test_trouble.py",
    ),
    _on_libsql(
        "the migration that another one has run",
        "schema.py",
        'if "anarchon_migration.version" not in error.problem:',
        "if True:",
        "schema",
    ),
)
