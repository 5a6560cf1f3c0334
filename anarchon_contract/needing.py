"""Tests for what not every store has: elsewhere they are skipped, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

import pytest

T = TypeVar("T", bound=Callable[..., object])


def needs(feature: str) -> Callable[[T], T]:
    """Let a test run only where a store has this feature."""

    # no mark of pytest's: each would have to be declared by whoever uses the suite
    def marked(test: T) -> T:
        vars(test)["needed"] = feature
        return test

    return marked


def skip_without(features: Collection[str], request: pytest.FixtureRequest) -> None:
    """Skip the test that asks, if it needs what is not among these features."""
    needed = getattr(request.function, "needed", None)
    if needed is not None and needed not in features:
        pytest.skip(f"not so that {needed}")
