"""`celery beat -S anarchon`: Celery's own command, as often as one likes."""

import signal
import socket
from pathlib import Path
from typing import Any

import pytest
from celery import Celery, beat, signals
from celery.schedules import crontab

from anarchon_celery import InvalidEntries
from anarchon_celery.beat import AnarchonScheduler
from anarchon_celery.beat_entries import announce
from anarchon_celery.scheduling import entries_of, scheduler_of
from tests.celery.beats import (
    END_ITS_THREAD,
    Outbox,
    Start,
    assert_every_slot_once,
    wait_until,
    write_project,
)

BEAT = ("-A", "proj", "beat", "-S", "anarchon", "-l", "info")


@pytest.fixture
def project(tmp_path: Path, beats_broker: str) -> Path:
    # a namespace of its own: what earlier tests ran is none of its business
    write_project(tmp_path, beats_broker, jobs=3, anarchon_namespace=tmp_path.name)
    return tmp_path


@pytest.mark.cluster
@pytest.mark.xdist_group("celery-beats")
class TestReplicas:
    """Any number of `celery beat -S anarchon`, in processes, on one Redis."""

    def test_they_publish_each_slot_once_though_one_is_killed(
        self, celery: Start, project: Path, outbox: Outbox
    ) -> None:
        first, second = celery(*BEAT), celery(*BEAT)
        for replica in (first, second):
            replica.read_until("beat: Starting...")
        wait_until(lambda: outbox.drain() >= 15)
        first.send(signal.SIGKILL)
        seen = outbox.drain()
        wait_until(lambda: outbox.drain() >= seen + 24)

        assert second.end(signal.SIGTERM) == 0

        assert_every_slot_once(outbox.slots(), jobs=3)
        assert "Scheduler: Sending due task job-" in second.output

    def test_four_publish_each_slot_once(
        self, celery: Start, project: Path, outbox: Outbox
    ) -> None:
        self._publish(celery, outbox, seconds=20)

    @pytest.mark.soak
    @pytest.mark.timeout(500)
    def test_four_publish_each_slot_once_for_five_minutes(
        self, celery: Start, project: Path, outbox: Outbox
    ) -> None:
        self._publish(celery, outbox, seconds=300)

    def _publish(self, celery: Start, outbox: Outbox, seconds: int) -> None:
        replicas = [celery(*BEAT) for _ in range(4)]
        wait_until(lambda: outbox.drain() >= 3 * seconds, seconds=seconds + 60)

        codes = [replica.end(signal.SIGTERM) for replica in replicas]

        assert codes == [0] * 4
        assert_every_slot_once(outbox.slots(), jobs=3)


@pytest.mark.cluster
@pytest.mark.xdist_group("celery-beats")
class TestProcess:
    """One of them, from its banner to its end."""

    def test_the_banner_says_where_instances_meet(
        self, celery: Start, project: Path, beats_broker: str
    ) -> None:
        beat_ = celery(*BEAT, "-s", "/var/run/beat", "--max-interval", "7")
        beat_.read_until("Sending due task")
        beat_.end(signal.SIGTERM)

        assert ". scheduler -> anarchon_celery.beat.AnarchonScheduler" in beat_.output
        assert f". store -> {beats_broker}" in beat_.output
        assert f". namespace -> {project.name}" in beat_.output
        assert beat_.output.count("the maximum interval has no use here") == 1
        assert beat_.output.count("/var/run/beat has no use here") == 1

    def test_it_waits_for_a_store_that_is_away_and_ends_all_the_same(
        self, celery: Start, tmp_path: Path
    ) -> None:
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            away = f"redis://127.0.0.1:{nobody.getsockname()[1]}/0"
            write_project(tmp_path, "memory://", store=away)
            beat_ = celery(*BEAT)
            beat_.read_until("store away")

            assert beat_.end(signal.SIGTERM) == 0

    def test_a_mistake_in_an_entry_ends_it(self, celery: Start, tmp_path: Path) -> None:
        more = "app.conf.beat_schedule['job-0']['expires'] = 5\n"
        write_project(tmp_path, "memory://", store="memory://", more=more)

        beat_ = celery(*BEAT)

        assert beat_.end() == 1
        assert "write it inside options" in beat_.output

    def test_an_embedded_beat_publishes_and_ends_with_its_worker(
        self, celery: Start, project: Path, outbox: Outbox
    ) -> None:
        # another queue, so that the messages are left for the test to read
        quiet = ("--without-gossip", "--without-mingle", "-Q", "aside", "-c", "1")
        worker = celery(
            "-A", "proj", "worker", "-B", "--scheduler", "anarchon", "-l", "info", *quiet
        )
        wait_until(lambda: outbox.drain() >= 9)

        code = worker.end(signal.SIGTERM)

        assert code == 0
        assert_every_slot_once(outbox.slots(), jobs=3)
        assert "Traceback" not in worker.output

    def test_its_settings_may_be_djangos(
        self, celery: Start, tmp_path: Path, beats_broker: str, outbox: Outbox
    ) -> None:
        (tmp_path / "mysite.py").write_text(
            f"CELERY_BROKER_URL = {beats_broker!r}\n"
            "CELERY_BEAT_SCHEDULER = 'anarchon'\n"
            f"CELERY_ANARCHON_NAMESPACE = {tmp_path.name!r}\n"
            "CELERY_BEAT_SCHEDULE = {'job-0': {'task': 'shop.note', 'schedule': 1.0}}\n"
        )
        (tmp_path / "proj.py").write_text(
            "from celery import Celery\n"
            "app = Celery('shop')\n"
            "app.config_from_object('mysite', namespace='CELERY')\n"
        )

        beat_ = celery("-A", "proj", "beat", "-l", "info")
        wait_until(lambda: outbox.drain() >= 2)

        assert beat_.end(signal.SIGTERM) == 0
        assert ". scheduler -> anarchon_celery.beat.AnarchonScheduler" in beat_.output
        assert f". namespace -> {tmp_path.name}" in beat_.output

    def test_its_thread_is_replaced_when_it_ends(
        self, celery: Start, tmp_path: Path, beats_broker: str, outbox: Outbox
    ) -> None:
        write_project(tmp_path, beats_broker, anarchon_namespace=tmp_path.name, more=END_ITS_THREAD)
        beat_ = celery(*BEAT)
        wait_until(lambda: outbox.drain() >= 2)

        beat_.send(signal.SIGWINCH)
        beat_.read_until("the scheduler's thread has ended: SystemExit")
        seen = outbox.drain()
        wait_until(lambda: outbox.drain() >= seen + 3)

        assert beat_.end(signal.SIGTERM) == 0
        (slots,) = outbox.slots().values()
        assert len(set(slots)) == len(slots)


class TestClass:
    """`AnarchonScheduler`, as Celery and others hold it."""

    @pytest.fixture
    def app(self, app: Celery) -> Celery:
        app.conf.anarchon_store = "memory://"
        app.conf.beat_schedule = {
            "often": {"task": "proj.note", "schedule": 1, "args": [1]},
            "daily": {"task": "proj.note", "schedule": crontab("0", "8")},
        }
        return app

    def test_celery_finds_it_by_its_name(self, app: Celery) -> None:
        service = beat.Service(app, scheduler_cls="anarchon")  # type: ignore[arg-type]

        assert type(service.get_scheduler(lazy=True)) is AnarchonScheduler

    def test_its_entries_are_read_as_beats_are(self, app: Celery) -> None:
        scheduler = AnarchonScheduler(app)

        often: Any = scheduler.schedule["often"]
        daily: Any = scheduler.schedule["daily"]
        assert (often.name, often.task, often.args) == ("often", "proj.note", [1])
        assert often.schedule.run_every.total_seconds() == 1
        assert daily.schedule is app.conf.beat_schedule["daily"]["schedule"]
        assert daily.is_due().is_due is False
        assert (scheduler.max_interval, scheduler.app) == (300, app)

    def test_made_for_a_banner_it_touches_nothing(
        self, app: Celery, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        app.conf.anarchon_store = "redis://me:hunter2@127.0.0.1:1/0"

        def refuse(*_: Any, **__: Any) -> None:
            raise AssertionError("it connects, or starts a thread")

        monkeypatch.setattr("socket.socket.connect", refuse)
        monkeypatch.setattr("threading.Thread.start", refuse)
        scheduler = AnarchonScheduler(app, lazy=True)

        assert ". store -> redis://" in scheduler.info
        assert "hunter2" not in scheduler.info
        assert scheduler.tick() > 0
        scheduler.close()

    def test_a_banner_tells_a_store_that_cannot_be_used(self, app: Celery) -> None:
        app.conf.anarchon_store = "nothing://"

        assert "nothing://" in AnarchonScheduler(app, lazy=True).info

    def test_it_may_be_closed_again_and_before_it_was_ticked(self, app: Celery) -> None:
        idle, ticked = AnarchonScheduler(app), AnarchonScheduler(app)
        ticked.tick()

        for scheduler in (idle, ticked, idle, ticked):
            scheduler.close()

        # what was closed does not begin again
        assert ticked.tick() > 0
        assert "alive" not in repr(ticked._running)

    def test_no_error_leaves_a_tick(
        self, app: Celery, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        scheduler = AnarchonScheduler(app)

        def refuse(*_: Any, **__: Any) -> None:
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr("threading.Thread.start", refuse)

        assert 0 < scheduler.tick() <= 5
        assert "can't start new thread" in caplog.text

    def test_it_looks_as_often_as_a_beat_in_a_thread_is_told_to(self, app: Celery) -> None:
        scheduler = AnarchonScheduler(app, max_interval=1)

        assert scheduler.tick() == 1
        scheduler.close()

    def test_all_that_is_wrong_is_told_when_it_is_made(
        self, app: Celery, caplog: pytest.LogCaptureFixture
    ) -> None:
        app.conf.beat_schedule = {
            "a": {"task": "proj.note", "schedule": 1, "options": {"anarchon": {"jiter": 1}}},
            "b": {"task": "proj.note", "schedule": 0},
        }

        with pytest.raises(SystemExit) as ended:
            AnarchonScheduler(app)

        assert ended.value.code == 1
        (told,) = [r for r in caplog.records if r.levelname == "CRITICAL"]
        assert "job 'a': jiter: there is no such option" in told.getMessage()
        assert "job 'b': schedule: an interval of 0s" in told.getMessage()
        assert told.exc_info is None


class TestBeatInit:
    """Handlers of `beat_init` read and change what they find, as they do with stock beat."""

    @pytest.fixture
    def app(self, app: Celery) -> Celery:
        app.conf.beat_schedule = {
            "job": {
                "task": "proj.note",
                "schedule": 60,
                "options": {"headers": {"a": 1}, "anarchon": {"lease": "30s"}},
            },
            "other": {"task": "proj.note", "schedule": 60},
        }
        return app

    def entries_after(self, app: Celery, handler: Any) -> dict[str, Any]:
        signals.beat_init.connect(handler)
        try:
            shown = entries_of(app)
            announce(shown.sender)
        finally:
            signals.beat_init.disconnect(handler)
        # that it can be made at all is part of it
        assert len(scheduler_of(shown, store="memory://").jobs) == len(shown.sender.schedule)
        return {entry.name: entry for entry in shown.read()[0]}

    def test_headers_that_one_puts_into_an_entry_are_sent(self, app: Celery) -> None:
        def mark(sender: Any, **_: Any) -> None:
            for name, entry in sender.scheduler.schedule.items():
                entry.options.setdefault("headers", {})["watched"] = name

        entries = self.entries_after(app, mark)

        assert entries["job"].options == {"headers": {"a": 1, "watched": "job"}}
        assert entries["job"].ours == {"lease": "30s"}
        assert entries["other"].options == {"headers": {"watched": "other"}}
        assert app.conf.beat_schedule["job"]["options"]["headers"] == {"a": 1}

    def test_an_entry_that_one_replaces_adds_or_removes_counts(self, app: Celery) -> None:
        def change(sender: Any, **_: Any) -> None:
            scheduler = sender.scheduler
            job = scheduler.schedule["job"]
            scheduler.schedule["job"] = beat.ScheduleEntry(
                **dict(job, schedule=crontab("0", "8"), app=scheduler.app)
            )
            scheduler.add(name="more", task="proj.note", schedule=5.0)
            del scheduler.schedule["other"]

        entries = self.entries_after(app, change)

        assert {name: str(entry.schedule) for name, entry in entries.items()} == {
            "job": str(entries["job"].schedule),
            "more": "every 5s",
        }
        assert "0 8" in str(entries["job"].schedule)
        assert entries["job"].ours == {"lease": "30s"}

    def test_one_that_raises_hurts_nobody(self, app: Celery) -> None:
        def fail(**_: Any) -> None:
            raise ValueError("its own fault")

        assert set(self.entries_after(app, fail)) == {"job", "other"}

    def test_a_change_that_makes_no_sense_is_told(self, app: Celery) -> None:
        shown = entries_of(app)
        shown.sender.add(name="odd", task="proj.note", schedule=0)

        with pytest.raises(InvalidEntries) as refused:
            scheduler_of(shown, store="memory://")

        assert [error.job for error in refused.value.errors] == ["odd"]
