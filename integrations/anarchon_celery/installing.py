"""What makes a worker of an app ours: one call in the project, before its workers start."""

from __future__ import annotations

from celery import Celery

from anarchon_celery import embedded as embedding
from anarchon_celery import tracking


def install(app: Celery, *, embedded: bool | None = None) -> None:
    """Let the app's workers follow tracked runs to their end; harmless when called again.

    With ``embedded`` they run the schedule as well; left out, the setting
    ``anarchon_embedded`` says whether they do. Call it where the app is made, so that each of
    its processes does.
    """
    tracking.connect(app)
    embedding.embed(app, embedded)
