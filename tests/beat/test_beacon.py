"""The file by which a daemon shows that it lives, on disks and in folders that fail."""

import asyncio
import logging
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from anarchon import Scheduler
from anarchon.testing import ManualClock
from anarchon_beat import pulse
from anarchon_beat.beacon import Beacon


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(autouse=True)
def _temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))


@asynccontextmanager
async def shining(clock: ManualClock, path: Path | None) -> AsyncIterator[None]:
    """Have a beacon shine that was told this file, or none."""
    given = str(path) if path is not None else None
    beacon = Beacon(Scheduler("memory://"), "proj", given, clock)
    task = asyncio.create_task(beacon.shine())
    await clock.settle()
    yield
    assert not task.done()
    task.cancel()
    beacon.put_out()


async def test_a_folder_that_was_swept_away_is_made_again(clock: ManualClock) -> None:
    async with shining(clock, None):
        shutil.rmtree(pulse.folder())

        await clock.advance(15)

        assert [one["pid"] for one in pulse.read_all()] == [os.getpid()]


async def test_a_file_that_was_removed_is_written_again(clock: ManualClock, tmp_path: Path) -> None:
    async with shining(clock, tmp_path / "alive"):
        (tmp_path / "alive").unlink()

        await clock.advance(15)

        assert (tmp_path / "alive").exists()


async def test_an_outage_of_the_disk_is_told_once_and_ends(
    clock: ManualClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, away = tmp_path / "folder", tmp_path / "away"
    folder.mkdir()
    with caplog.at_level(logging.INFO, logger="anarchon.beat"):
        async with shining(clock, folder / "alive"):
            for _ in range(2):
                folder.rename(away)
                await clock.advance(60)
                away.rename(folder)
                (folder / "alive").unlink()
                await clock.advance(2)
                assert (folder / "alive").exists()

    told = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert [level for level, _ in told] == ["WARNING", "INFO"] * 2
    assert "`anarchon-beat health` will fail" in told[0][1]


async def test_a_file_that_cannot_be_put_in_place_leaves_no_draft(
    clock: ManualClock, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()

    async with shining(clock, folder):
        await clock.advance(15)

        assert os.listdir(tmp_path) == ["folder"]
