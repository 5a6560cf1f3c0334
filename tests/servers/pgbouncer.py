"""Starts PgBouncer before a PostgreSQL: each transaction may get another of its connections."""

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from tests.servers.binaries import Binaries
from tests.servers.catalog import Recipe
from tests.servers.postgres import SUPERUSER
from tests.servers.process import HOST, Server, exchange

_NOBODY = 65534
#: With this a client of PostgreSQL asks for TLS, and is answered in a letter.
_SSL_REQUEST = bytes((0, 0, 0, 8)) + (80877103).to_bytes(4, "big")


def before(server: Server) -> tuple[str, ...]:
    """Return the options of a PgBouncer that leads to a server."""
    return "[databases]", f"* = host={HOST} port={server.port} auth_user={SUPERUSER}"


class PgBouncerServer(Server):
    """A PgBouncer in transaction mode that trusts every local client.

    ``options`` are further lines of its settings; at the end of them stand its databases, as
    `before` has them.
    """

    def __init__(
        self, recipe: Recipe, binaries: Binaries, folder: Path, options: Sequence[str] = ()
    ) -> None:
        super().__init__(recipe, binaries, folder, options)
        # it refuses to run as root
        self.user = _NOBODY if os.geteuid() == 0 else 0

    def url(
        self, database: str = "postgres", *, user: str = SUPERUSER, password: str | None = None
    ) -> str:
        """Return the address of a database for a user."""
        secret = f":{quote(password, safe='')}" if password is not None else ""
        return f"postgresql://{user}{secret}@{HOST}:{self.port}/{database}"

    def _command(self) -> list[str]:
        settings = {
            "listen_addr": HOST,
            "listen_port": self.port,
            "unix_socket_dir": "",
            "auth_type": "trust",
            "pool_mode": "transaction",
            # fewer than there are clients, or each would have one for itself
            "default_pool_size": 4,
            "max_client_conn": 500,
        }
        lines = ["[pgbouncer]", *(f"{key} = {value}" for key, value in settings.items())]
        file = self.folder / "pgbouncer.ini"
        file.write_text("\n".join([*lines, *self._options, ""]))
        return [*self.binaries.command("pgbouncer"), str(file)]

    def _is_ready(self) -> bool:
        return exchange(self.port, _SSL_REQUEST) in (b"N", b"S")
