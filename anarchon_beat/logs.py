"""Where the daemon's log goes, and how it reads: as celery's, or one JSON object a line."""

from __future__ import annotations

import json
import logging
import logging.handlers
from datetime import UTC, datetime

import click

from anarchon import Event
from anarchon.clock import rfc3339
from anarchon_beat.config import Settings
from anarchon_beat.find import CeleryApp
from anarchon_beat.mistakes import Mistake

TEXT = "[%(asctime)s: %(levelname)s/%(processName)s] %(message)s"
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", "FATAL")


class Level(click.Choice[str]):
    """A log level as celery takes it, in any case of letters."""

    def __init__(self) -> None:
        super().__init__(LEVELS, case_sensitive=False)


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as JSON."""
        said: dict[str, object] = {
            "time": rfc3339(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        event = getattr(record, "event", None)
        if isinstance(event, Event):
            said.update({"event": event.kind.value, **event.fields()})
        if record.exc_info:
            said["exception"] = self.formatException(record.exc_info)
        return json.dumps(said)


def configure(settings: Settings, celery: CeleryApp | None) -> None:
    """Set up the root logger; a Celery app's own settings and signals for it are honoured.

    Raises ``Mistake`` for a file that cannot be written.
    """
    logfile = settings.logfile
    if logfile is None and celery is not None:
        logfile = celery.conf.get("beat_logfile")
    try:
        if celery is not None and not settings.log_json:
            celery.log.setup_logging_subsystem(loglevel=settings.loglevel, logfile=logfile)
            return
        handler: logging.Handler = (
            logging.handlers.WatchedFileHandler(logfile, errors="backslashreplace")
            if logfile
            else logging.StreamHandler()
        )
    except OSError as error:
        raise Mistake(f"logfile {logfile}: {error.strerror}") from error
    handler.setFormatter(JsonFormatter() if settings.log_json else logging.Formatter(TEXT))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(settings.loglevel)
