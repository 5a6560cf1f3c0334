"""The page on writing a backend, done: its store passes the suite, and is opened by its URL."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from anarchon.backends import open_backend
from tests.documents import BLOCKS, Block

PAGE = [block for block in BLOCKS if block.page == "docs/how-to/write-a-backend.md"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The files of the page, in a folder."""
    for block in PAGE:
        if block.mark == "file":
            (tmp_path / str(block.about)).write_text(block.text)
    (tmp_path / "pyproject.toml").write_text(settings("pytest").text)
    return tmp_path


def settings(word: str) -> Block:
    (found,) = (one for one in PAGE if one.language == "toml" and word in one.text)
    return found


@pytest.mark.cluster
def test_its_store_passes_the_suite(project: Path) -> None:
    options = ("-q", "-p", "no:cacheprovider", "-W", "error", "--strict-markers")

    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options], cwd=project, capture_output=True, text=True
    )

    summary = done.stdout.splitlines()[-1].strip("= ")
    assert done.returncode == 0, done.stdout
    assert int(summary.split(" passed")[0]) > 100


def test_its_store_is_opened_by_its_url(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = tomllib.loads(settings("entry-points").text)["project"]["entry-points"]
    about = project / "folder_store-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: folder-store\nVersion: 1.0\n")
    lines = [f"{name} = {value}" for name, value in points["anarchon.backends"].items()]
    (about / "entry_points.txt").write_text("\n".join(["[anarchon.backends]", *lines, ""]))
    monkeypatch.syspath_prepend(project)

    assert open_backend("folder:///srv/slots").label == "folder:///srv/slots"
