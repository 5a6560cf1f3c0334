"""Starts Redis and Valkey."""

from tests.servers.process import HOST, Server, exchange


class RedisServer(Server):
    """A Redis or Valkey whose data outlive a stop and a kill, as far as the machine stays up."""

    def url(self, database: int = 0) -> str:
        """Return the address of one of its numbered databases."""
        return f"redis://{HOST}:{self.port}/{database}"

    def _command(self) -> list[str]:
        arguments = {
            "--port": str(self.port),
            "--bind": HOST,
            "--dir": str(self.folder),
            "--save": "",
            "--appendonly": "yes",
            "--appendfsync": "everysec",
        }
        flat = [part for pair in arguments.items() for part in pair]
        return [*self.binaries.command(self._program()), *flat, *self._options]

    def _program(self) -> str:
        return f"{self.kind}-server"

    def _is_ready(self) -> bool:
        return exchange(self.port, b"PING\r\n").startswith(b"+PONG")
