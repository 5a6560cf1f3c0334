"""Starts NATS with JetStream, an account with an administrator, and one that sees the server."""

from tests.servers.process import HOST, Server, exchange

_CONFIG = """\
jetstream {{ store_dir: "data", max_mem: 64M, max_file: 1G }}
accounts {{
  APP {{ jetstream: enabled, users: [ {users} ] }}
  SYS {{ users: [ {{ user: sys, password: sys }} ] }}
}}
system_account: SYS
no_auth_user: admin
"""


def config(*users: str) -> str:
    """Return a configuration as the server takes it, with further users of the account."""
    return _CONFIG.format(users=", ".join(("{ user: admin, password: admin }", *users)))


class NatsServer(Server):
    """A NATS whose streams outlive a stop and a kill, as far as the machine stays up.

    It writes to the disk every two minutes, as it does by default: a kill loses nothing that the
    kernel has. An option ``-c FILE`` replaces its configuration.
    """

    def url(self, login: str = "") -> str:
        """Return its address, perhaps with a ``USER:PASSWORD``; without one: the administrator."""
        return f"nats://{login}{'@' if login else ''}{HOST}:{self.port}"

    def _prepare(self) -> None:
        (self.folder / "server.conf").write_text(config())

    def _command(self) -> list[str]:
        given = ["-c", "server.conf", "-a", HOST, "-p", str(self.port), *self._options]
        return [*self.binaries.command("nats-server"), *given]

    def _is_ready(self) -> bool:
        return exchange(self.port, b"").startswith(b"INFO ")
