"""How a store stands, found out without changing anything in it.

Opening a store prepares it: tables are made, or brought to this version. Whoever only wants to
know whether that would do asks this way, and leaves everything as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Standing:
    """What was found; a store that cannot serve raises instead.

    ``server`` is what answered, with its version. ``is_prepared`` says that all is there in this
    version's layout; else whoever opens the store first sees to it. ``doubts`` are what may cost
    a promise.
    """

    server: str
    is_prepared: bool
    doubts: tuple[str, ...] = ()


@runtime_checkable
class Examinable(Protocol):
    """A backend that can be looked at without being opened."""

    async def examine(self, namespace: str) -> Standing:
        """Look, and change nothing.

        Raises what opening would raise: ``StoreUnavailable``, ``SchemaMismatch`` or another
        ``StoreError``.
        """
