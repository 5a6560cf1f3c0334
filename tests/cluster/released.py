"""The code of an earlier commit, to run beside ours on one store."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.servers import Unavailable

#: What the other half of the instances runs, as while a release is rolled out: code with the same
#: formats of every store as ours. It moves on when a format changes, and to the last release once
#: there is one. This is the tree of a commit, which stays what it is where history is replayed.
TREE = "936ab99a7f3f6b3a7879a9dc215bf6138e272fab"
_ROOT = Path(__file__).parents[2]
_PACKAGES = ("anarchon", "anarchon_beat", "integrations")


def unpack(folder: Path) -> str:
    """Unpack that commit below a folder and return the PYTHONPATH that puts it before ours.

    A shallow clone skips the test, even where all is required: it was made without history on
    purpose. Raises `Unavailable` where the commit is not there otherwise.
    """
    command = ["git", "-C", str(_ROOT), "archive", TREE, *_PACKAGES]
    try:
        archive = subprocess.run(command, capture_output=True, check=True).stdout
    except FileNotFoundError:
        raise Unavailable("there is no git to take an earlier commit from") from None
    except subprocess.CalledProcessError as error:
        if (_ROOT / ".git" / "shallow").exists():
            pytest.skip(f"a shallow clone: `git fetch --unshallow` brings {TREE[:7]} into it")
        said = error.stderr.decode().strip()
        raise Unavailable(f"{TREE[:7]} is not in this clone: {said}") from None
    with tarfile.open(fileobj=io.BytesIO(archive)) as content:
        content.extractall(folder, filter="data")
    return f"{folder}:{folder / 'integrations'}"
