"""What ``-A`` means."""

import sys
from pathlib import Path

import pytest

from anarchon import Scheduler
from anarchon_beat.find import find
from tests.beat.conftest import Beat

PROJECT = "from celery import Celery\n{name} = Celery('shop', set_as_current=False)\n"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(beat: Beat) -> None:
    """The modules that a test makes are the next test's no more."""


@pytest.mark.parametrize("name", ["app", "celery", "shop"])
@pytest.mark.parametrize("spelling", ["proj", "proj:{name}", "proj.{name}"])
def test_an_app_in_a_module_is_found(tmp_path: Path, name: str, spelling: str) -> None:
    (tmp_path / "proj.py").write_text(PROJECT.format(name=name))

    assert vars(find(spelling.format(name=name)))["main"] == "shop"


@pytest.mark.parametrize("spelling", ["pack", "pack.celery", "pack.celery:app"])
def test_an_app_in_the_celery_module_of_a_package_is_found(tmp_path: Path, spelling: str) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").touch()
    (tmp_path / "pack" / "celery.py").write_text(PROJECT.format(name="app"))

    assert vars(find(spelling))["main"] == "shop"


@pytest.mark.parametrize("spelling", ["jobs:mine", "jobs.mine", "jobs:holder.inner"])
def test_a_scheduler_is_found(tmp_path: Path, spelling: str) -> None:
    (tmp_path / "jobs.py").write_text(
        "from anarchon import Scheduler\nmine = Scheduler('memory://')\n"
        "class holder:\n    inner = mine\n"
    )

    assert isinstance(find(spelling), Scheduler)


def test_the_working_directory_stays_importable_for_tasks_imported_later(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text("from anarchon import Scheduler\nx = Scheduler('memory://')")

    find("jobs:x")

    assert str(tmp_path) in sys.path
