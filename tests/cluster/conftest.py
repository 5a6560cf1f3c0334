"""Prints what long runs of chaos came to, at the end and whether or not they passed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.figures import PROPERTY


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for table in _tables(terminalreporter):
        terminalreporter.write_line(table)


def _tables(reporter: pytest.TerminalReporter) -> Iterator[str]:
    for outcome in ("passed", "failed"):
        for report in reporter.stats.get(outcome, []):
            if report.when == "call" and "soak" in report.keywords:
                yield from (str(told) for name, told in report.user_properties if name == PROPERTY)
