"""Starts PostgreSQL, which refuses to run as root."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from tests.servers.binaries import Binaries
from tests.servers.catalog import Recipe
from tests.servers.folders import is_reachable_by_others, link_or_copy
from tests.servers.process import HOST, Server

_NOBODY = 65534
_SERVING = ("ready", "standby")
SUPERUSER = "postgres"


class PostgresServer(Server):
    """A PostgreSQL that trusts every local client, without fsync: only the machine must not fall.

    ``options`` are further arguments of `postgres`, such as ``("-c", "max_connections=20")``.
    """

    # "Fast": ends its sessions instead of waiting for clients to go.
    stop_signal = signal.SIGINT

    def __init__(
        self, recipe: Recipe, binaries: Binaries, folder: Path, options: Sequence[str] = ()
    ) -> None:
        super().__init__(recipe, binaries, folder, options)
        self.user = _NOBODY if os.geteuid() == 0 else 0
        self._data = folder / "data"

    def url(
        self, database: str = "postgres", *, user: str = SUPERUSER, password: str | None = None
    ) -> str:
        """Return the address of a database for a user."""
        secret = f":{quote(password, safe='')}" if password is not None else ""
        return f"postgresql://{user}{secret}@{HOST}:{self.port}/{database}"

    def let_in(self, *lines: str) -> None:
        """Let in only those of whom these lines of `pg_hba.conf` speak; restarts it."""
        self.stop()
        (self._data / "pg_hba.conf").write_text("\n".join((*lines, "")))
        self.start()

    def _prepare(self) -> None:
        if self.user:
            self._let_the_user_in()
        initdb = [*self.binaries.command("initdb"), "-D", str(self._data), "-U", SUPERUSER]
        self._run([*initdb, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"])

    def _let_the_user_in(self) -> None:
        os.chown(self.folder, self.user, self.user)
        if not is_reachable_by_others(self.binaries.folder):
            reachable = self.folder.with_name(f"{self.folder.name}-programs")
            link_or_copy(self.binaries.folder, reachable)
            self.binaries = Binaries(reachable, self.binaries.programs)

    def _command(self) -> list[str]:
        settings = {
            "listen_addresses": HOST,
            "fsync": "off",
            "datestyle": "German, DMY",
            "intervalstyle": "sql_standard",
            # In its own folder, so that even a kill leaves nothing behind elsewhere.
            "dynamic_shared_memory_type": "mmap",
        }
        flat = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        place = ["-D", str(self._data), "-p", str(self.port), "-k", str(self.folder)]
        return [*self.binaries.command("postgres"), *place, *flat, *self._options]

    def _is_ready(self) -> bool:
        # Its last line is the state, for `pg_ctl` and for us; a file of an earlier, killed
        # process names another pid.
        lines = (self._data / "postmaster.pid").read_text().splitlines()
        return len(lines) >= 8 and int(lines[0]) == self.pid and lines[7].strip() in _SERVING
