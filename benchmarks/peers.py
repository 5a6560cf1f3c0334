"""The schedulers of others, in an environment of their own that is made when first needed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from tests.servers.fetch import FOLDER

_PINNED = (
    "celery-redbeat==2.4.2",
    "django-celery-beat==2.9.0",
    "celery-multibeat-scheduler==0.1.0",
    "psycopg[binary]==3.3.9",
)
#: The same for them as for us, so that what differs is the scheduler.
_SHARED = ("celery", "kombu", "redis", "hiredis", "packaging")


class NoPeers(Exception):
    """The environment could not be made, and why."""


def python() -> Path:
    """Return the interpreter that has the peers; raises ``NoPeers``."""
    folder = FOLDER / "peers"
    marker, interpreter = folder / "made-of", folder / "bin" / "python"
    wanted = [*_PINNED, *(f"{name}=={version(name)}" for name in _SHARED)]
    if marker.exists() and marker.read_text().split() == wanted:
        return interpreter
    shutil.rmtree(folder, ignore_errors=True)
    FOLDER.mkdir(mode=0o755, exist_ok=True)
    _run(sys.executable, "-m", "venv", str(folder))
    _run(str(interpreter), "-m", "pip", "install", "--quiet", *wanted)
    marker.write_text("\n".join(wanted))
    return interpreter


def versions() -> str:
    """Return what the peers are, in one line."""
    return ", ".join(name.replace("==", " ") for name in _PINNED)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise NoPeers(f"the environment of the peers was not made: {' / '.join(said[-2:])}")
