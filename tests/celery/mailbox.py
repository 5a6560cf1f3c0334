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

    def find(self, key: str, *, seconds: float = 15, **with_: object) -> dict[str, Any]:
        """Wait for a report that has this key, and these values; the others are let go."""
        self._line.settimeout(seconds)
        try:
            while True:
                report = self.next()
                if key in report and all(report.get(name) == it for name, it in with_.items()):
                    return report
        finally:
            self._line.settimeout(15)

    def rest(self, key: str) -> list[dict[str, Any]]:
        """Read what has come, and return the reports that have this key."""
        reports = []
        while not self.is_empty():
            reports.append(self.next())
        return [report for report in reports if key in report]

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
