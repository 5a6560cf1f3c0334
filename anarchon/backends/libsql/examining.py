"""A look at the server that leaves its tables as they are."""

from __future__ import annotations

from anarchon.backends.libsql.pipeline import Pipeline
from anarchon.backends.libsql.schema import is_current
from anarchon.backends.libsql.settings import Settings
from anarchon.standing import Standing


async def examine(settings: Settings) -> Standing:
    """Say how the server stands; raises ``StoreError``."""
    pipeline = Pipeline(settings)
    try:
        prepared = await is_current(pipeline, settings.label)
        return Standing(await pipeline.version(), prepared)
    finally:
        await pipeline.close()
