"""Starts Redis and Valkey."""

from tests.servers.process import HOST, Server, exchange


class RedisServer(Server):
    """A Redis or Valkey whose data outlive a stop and a kill, as far as the machine stays up."""

    def url(self, database: int = 0) -> str:
        """Return the address of one of its numbered databases."""
        return f"redis://{HOST}:{self.port}/{database}"

    @property
    def tls_port(self) -> int:
        """Where it speaks TLS, if it was given a certificate."""
        return self.port + 17_000

    def _command(self) -> list[str]:
        arguments = {
            "--port": str(self.port),
            "--bind": HOST,
            "--dir": str(self.folder),
            "--save": "",
            "--appendonly": "yes",
            "--appendfsync": "everysec",
            # a replica is served at once, and not after the 5 s in which others might come
            "--repl-diskless-sync-delay": "0",
        }
        if "--tls-cert-file" in self._options:
            arguments["--tls-port"] = str(self.tls_port)
        flat = [part for pair in arguments.items() for part in pair]
        return [*self.binaries.command(self._program()), *flat, *self._options]

    def _program(self) -> str:
        return f"{self.kind}-server"

    def _is_ready(self) -> bool:
        password = self._option("--requirepass")
        login = f"AUTH {password}\r\n" if password else ""
        return b"+PONG" in exchange(self.port, f"{login}PING\r\n".encode())

    def _option(self, name: str) -> str:
        options = self._options
        return options[options.index(name) + 1] if name in options else ""
