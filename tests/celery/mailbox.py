"""Where the tasks of a worker process tell a test that they ran."""

import json
import socket
from typing import Any


class Mailbox:
    """A UDP port of this machine; reports wait in it until they are read."""

    def __init__(self) -> None:
        self._line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._line.bind(("127.0.0.1", 0))
        self._line.settimeout(15)

    @property
    def port(self) -> int:
        """The port to report to."""
        return int(self._line.getsockname()[1])

    def next(self) -> dict[str, Any]:
        """Wait for the next report; raises `TimeoutError` if none comes."""
        report: dict[str, Any] = json.loads(self._line.recv(65535))
        return report

    def is_empty(self) -> bool:
        """Tell whether no report waits."""
        self._line.setblocking(False)
        try:
            self._line.recv(65535, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        finally:
            self._line.settimeout(15)
        return False

    def close(self) -> None:
        """Give the port back."""
        self._line.close()
