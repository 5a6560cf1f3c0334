"""What a checker says: findings, and what only a fault that was injected explains."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from anarchon.clock import rfc3339


class Kind(StrEnum):
    """Which promise a finding breaks."""

    MISSED = "missed"
    """A slot that somebody able had to start, and nobody did."""
    EXTRA = "extra"
    """A slot that ran though nothing permits it: too old, or from before the job was known."""
    PHANTOM = "phantom"
    """A run that cannot be: no such slot, too early, or of an instance that was not there."""
    DOUBLED = "doubled"
    """A slot that was started again without a takeover that the guarantees allow."""
    FENCE = "fence"
    """A fence that did not grow."""
    OVERLAP = "overlap"
    """Two bodies at the same time where the later one's claim may not have been won."""
    LATE = "late"
    """A start later than its bound."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken promise, or one that a fault excuses; ``str()`` gives one readable line."""

    kind: Kind
    job: str
    slot: datetime
    detail: str

    def __str__(self) -> str:
        return f"{self.kind} {self.job}@{rfc3339(self.slot)}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found.

    ``demanded`` counts the slots that had to start, without those that were ``skipped`` because
    another run of their job was busy; ``takeovers`` the bodies of attempt 2 and later. A verdict
    over nothing holds too: whoever asks should look at ``demanded``.
    """

    findings: tuple[Finding, ...]
    excused: tuple[Finding, ...]
    demanded: int
    skipped: int
    takeovers: int

    @property
    def holds(self) -> bool:
        """Tell whether no promise was broken."""
        return not self.findings

    def __str__(self) -> str:
        told = "holds" if self.holds else f"{len(self.findings)} broken"
        head = (
            f"{told}: {self.demanded} slots demanded, {self.skipped} skipped,"
            f" {self.takeovers} takeovers, {len(self.excused)} excused"
        )
        return "\n".join([head, *map(str, self.findings)])
