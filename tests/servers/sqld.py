"""Starts sqld, the libSQL server."""

import http.client
import json
from typing import Any

from tests.servers.process import HOST, Server, exchange, free_port

#: A key made for these tests and its tokens, which never end: to read and write, and to read only.
#: A JWT signed with Ed25519, as sqld wants it; ``authToken=`` in a URL, ``--auth-jwt-key-file``
#: for the server.
PUBLIC_KEY = "4WUqolD4VZL085yYTKtDPen9btGxvkJQYkYlqNnnzlM"
TOKEN = (
    "eyJhbGciOiAiRWREU0EiLCAidHlwIjogIkpXVCJ9.eyJhIjogInJ3In0"
    ".2Rl7UzK9JODwDe7lwwegDzKSmVEwG_DXyi7l4Ijx--Lqy26AbHzwBO2W6acXuDQn05GuFtjrULDxGUJm65lTCw"
)
READ_ONLY_TOKEN = (
    "eyJhbGciOiAiRWREU0EiLCAidHlwIjogIkpXVCJ9.eyJhIjogInJvIn0"
    ".yj0UDFcOf2325iXu9hzuckynoJJFPYvSdenETZFR5V-4hu76xmPN3MKm3fjfgMMPWWb2qlM3n7ug6QfNf1EuAg"
)


class SqldServer(Server):
    """A libSQL server whose data outlive a stop and a kill, as far as the machine stays up."""

    def url(self, *, token: str | None = None) -> str:
        """Return its address as a store."""
        secret = f"?authToken={token}" if token else ""
        return f"http+libsql://{HOST}:{self.port}{secret}"

    def require_tokens(self) -> None:
        """Serve only whoever has one of the tokens, from now on."""
        key = self.folder / "key"
        key.write_text(PUBLIC_KEY)
        self._restart_with("--auth-jwt-key-file", str(key))

    def lead_replicas(self) -> tuple[str, str]:
        """Let replicas follow from now on; return the options to start one with."""
        place = f"{HOST}:{free_port()}"
        self._restart_with("--grpc-listen-addr", place)
        return "--primary-grpc-url", f"http://{place}"

    def _restart_with(self, *options: str) -> None:
        self.stop()
        self._options += options
        self.start()

    def run(self, *statements: str | tuple[str, tuple[str | int, ...]]) -> list[int]:
        """Run statements of SQL one by one; return how many rows each changed."""
        told = [(each, ()) if isinstance(each, str) else each for each in statements]
        requests = [
            {"type": "execute", "stmt": {"sql": sql, "args": [_value(value) for value in values]}}
            for sql, values in told
        ]
        connection = http.client.HTTPConnection(HOST, self.port, timeout=10)
        try:
            body = json.dumps({"baton": None, "requests": [*requests, {"type": "close"}]})
            connection.request("POST", "/v2/pipeline", body, {"Authorization": f"Bearer {TOKEN}"})
            results = json.loads(connection.getresponse().read())["results"][:-1]
        finally:
            connection.close()
        for result in results:
            assert result["type"] == "ok", result
        return [result["response"]["result"]["affected_row_count"] for result in results]

    def wipe(self) -> None:
        """Make it as new."""
        self.run(
            "drop view if exists anarchon_clock",
            *(
                f"drop table if exists anarchon_{table}"
                for table in ("migration", "job", "fingerprint", "run", "attempt", "added")
            ),
        )

    def _command(self) -> list[str]:
        place = ["--db-path", str(self.folder / "data")]
        listen = ["--http-listen-addr", f"{HOST}:{self.port}"]
        return [*self.binaries.command("sqld"), "--no-welcome", *place, *listen, *self._options]

    def _is_ready(self) -> bool:
        return exchange(self.port, b"GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n").startswith(
            b"HTTP/1.0 200"
        )


def _value(value: str | int) -> dict[str, Any]:
    kind = "text" if isinstance(value, str) else "integer"
    return {"type": kind, "value": str(value)}
