"""The command on a store that only decides claims: what it does there, and what it says."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from redis import Redis

from anarchon import Attempt, NoHistory, Scheduler, Standing
from anarchon.backends.memory_claims import MemoryClaimBackend, MemoryClaimStore
from anarchon.store import Reply
from tests.beat.conftest import Beat, Process
from tests.beat.test_daemon import wait_for
from tests.servers import ServersForTests
from tests.servers.redis import RedisServer

Declared = Callable[[Scheduler], str]


class Forgetful(MemoryClaimBackend):
    """One that can be looked at, keeps no history, and remembers a claim for so long."""

    judges_time = False

    def __init__(self, remembered: timedelta | None = None) -> None:
        super().__init__()
        self._remembered = remembered

    def remembers(self, within: timedelta) -> timedelta | None:  # type: ignore[override]
        return None if self._remembered is None else self._remembered + within

    async def examine(self, namespace: str) -> Standing:
        return Standing("Memory 1.0", True)

    def connect(self, namespace: str) -> MemoryClaimStore:
        store = super().connect(namespace)
        store.history = no_history  # type: ignore[method-assign]
        return store


async def no_history(jobs: Sequence[str], limit: int) -> Reply[Attempt]:
    raise NoHistory("memory://", "keeps no history")


def with_jobs(backend: MemoryClaimBackend) -> Scheduler:
    scheduler = Scheduler(backend)
    scheduler.every("sync", "10s", print)
    scheduler.every("mail", "1m", print, max_late="1m")
    return scheduler


def test_next_shows_the_slots(beat: Beat, declared: Declared) -> None:
    # the first one may be the other job's
    told = beat("-A", declared(with_jobs(Forgetful())), "next", "-n", "3")

    assert (told.code, told.err) == (0, "")
    assert "sync" in told.out


def test_a_history_that_is_kept_is_shown(beat: Beat, declared: Declared) -> None:
    told = beat("-A", declared(with_jobs(MemoryClaimBackend())), "history")

    assert (told.code, told.out, told.err) == (0, "nothing has run yet\n", "")


def test_a_history_that_is_not_kept_is_told_in_one_line(beat: Beat, declared: Declared) -> None:
    told = beat("-A", declared(with_jobs(Forgetful())), "history")

    assert (told.code, told.out) == (2, "")
    assert told.err == "anarchon-beat: store memory://: keeps no history\n"


def test_a_check_says_what_the_store_does_not_give(beat: Beat, declared: Declared) -> None:
    told = beat("-A", declared(with_jobs(Forgetful())), "check")

    assert told.code == 0
    assert told.out.splitlines() == [
        "note: store memory://: decides claims and keeps no leases: a run is not taken over and a"
        " missed slot not caught up, runs of one job may overlap, and nothing is tracked",
        "2 jobs in namespace 'default' on memory:// (Memory 1.0): no errors, no warnings, 1 note",
    ]


def test_a_check_says_for_how_long_claims_are_remembered(beat: Beat, declared: Declared) -> None:
    told = beat("-A", declared(with_jobs(Forgetful(timedelta(hours=1)))), "check", "--offline")

    assert told.code == 0
    lines = [line.partition(": an instance")[0] for line in told.out.splitlines()[1:3]]
    assert lines == [
        "note: job 'sync': store memory://: remembers a claim for 1h5m at most",
        "note: job 'mail': store memory://: remembers a claim for 1h1m at most",
    ]


# ---------------------------------------------------------------- a real one

PROJECT = """
from celery import Celery

app = Celery("shop", broker="memory://")
app.conf.anarchon_store = {store!r}
app.conf.beat_schedule = {{
    "add": {{"task": "shop.add", "schedule": 1.0}},
    "asks": {{"task": "shop.add", "schedule": 60.0, "options": {{"anarchon": {{{asked}}}}}}},
}}
"""


@pytest.fixture
def store(servers: ServersForTests) -> str:
    server = servers.get("redis-8.0")
    assert isinstance(server, RedisServer)
    with Redis.from_url(server.url(database=11)) as client:
        client.flushdb()
    return f"{server.url(database=11)}?mode=script"


@pytest.mark.parametrize(
    ("asked", "option"),
    [
        ("'track': True", "track"),
        ("'overlap': 'skip'", "overlap"),
        ("'catch_up': '1h'", "catch_up"),
        ("'max_attempts': 3", "max_attempts"),
    ],
)
def test_an_entry_that_asks_for_a_lease_is_told_before_anything_runs(
    beat: Beat, tmp_path: Path, asked: str, option: str
) -> None:
    store = "redis://127.0.0.1:1/0?mode=script"
    (tmp_path / "proj.py").write_text(PROJECT.format(store=store, asked=asked))

    told = beat("-A", "proj", "check", "--offline")

    assert told.code == 2
    (error,) = [line for line in told.out.splitlines() if line.startswith("error: ")]
    assert error.startswith(f"error: job 'asks': {option}: ")
    assert "store with leases: redis://" in error


def test_nothing_is_said_to_be_caught_up(beat: Beat, tmp_path: Path) -> None:
    store = "redis://127.0.0.1:1/0?mode=script"
    (tmp_path / "proj.py").write_text(PROJECT.format(store=store, asked=""))

    told = beat("-A", "proj", "check", "--offline")

    assert "catch_up: after a downtime no missed slot is sent; celery beat sends one" in told.out


@pytest.mark.xdist_group("redis-8.0")
def test_it_runs_the_schedule_and_is_ready(
    start: Callable[..., Process], beat: Beat, tmp_path: Path, store: str
) -> None:
    (tmp_path / "proj.py").write_text(PROJECT.format(store=store, asked=""))
    daemon = start("-A", "proj", "-l", "info")
    daemon.read_until("published job=add")

    wait_for(lambda: beat("-A", "proj", "health", "--ready").code == 0)
    shown = beat("-A", "proj", "history", "--job", "add")

    assert daemon.end(signal.SIGTERM) == 0
    assert "this store decides claims and keeps no leases" in daemon.output
    assert "published" in shown.out
