"""Tracked runs as an instance would publish them, and the workers that are given their messages."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar
from uuid import uuid4

from celery import Celery

from anarchon.backends import open_backend
from anarchon.claim_store import ClaimBackend
from anarchon.clock import rfc3339
from anarchon.message import HEADER
from anarchon.run import Attempt, OnStoreError, Overlap, RunState
from anarchon.store import Claim, LeaseStore, Mode, Outcome, Renewal, Terms, Waiting
from tests.celery.mailbox import Mailbox
from tests.groups import frozen_group, kill_group

ROOT = Path(__file__).resolve().parent.parent.parent
NAMESPACE = "proj"

T = TypeVar("T")


class TestStore:
    """A store, asked from a test one call at a time."""

    __test__ = False

    def __init__(self, url: str) -> None:
        self.url = url
        backend = open_backend(url)
        assert not isinstance(backend, ClaimBackend)
        self._backend = backend

    def ask(self, question: Callable[[LeaseStore], Awaitable[T]]) -> T:
        async def ask() -> T:
            store = self._backend.connect(NAMESPACE)
            await store.open()
            try:
                return await question(store)
            finally:
                await store.close()

        return asyncio.run(ask())

    def publishable(
        self,
        job: str | None = None,
        *,
        lease: float = 3.0,
        start_within: float = 60.0,
        max_attempts: int = 3,
        on_store_error: OnStoreError = OnStoreError.RETRY,
        queued: bool = True,
    ) -> dict[str, Any]:
        """Claim a slot of a new job, as its publisher would; return what its message says."""
        terms = Terms(
            timedelta(seconds=lease),
            Overlap.SKIP,
            max_attempts,
            RunState.CLAIMED,
            timedelta(seconds=start_within),
        )
        return self._claimed(
            job or f"job-{uuid4().hex[:8]}", terms, on_store_error, Mode.SCHEDULED, None, queued
        )

    def taken_over(self, said: dict[str, Any]) -> dict[str, Any] | None:
        """Take a lapsed run over, as a backup would; `None` as long as it cannot be."""
        terms = Terms(
            timedelta(seconds=3), Overlap.SKIP, 3, RunState.CLAIMED, timedelta(seconds=60)
        )
        try:
            rule = OnStoreError(said["on_store_error"])
            return self._claimed(said["job"], terms, rule, Mode.TAKEOVER, said["slot"], True)
        except LookupError:
            return None

    def _claimed(
        self,
        job: str,
        terms: Terms,
        rule: OnStoreError,
        mode: Mode,
        slot: str | None,
        queued: bool,
    ) -> dict[str, Any]:
        token = uuid4().hex

        async def claim(store: LeaseStore) -> dict[str, Any]:
            now = (await store.active(())).time
            moment = now.replace(microsecond=0) if slot is None else datetime.fromisoformat(slot)
            asked = Claim(job, moment, token, mode, "here-1", terms, timedelta(hours=1))
            (answer,) = (await store.claim([asked])).answers
            if answer.outcome is not Outcome.WON:
                raise LookupError(answer)
            if queued:
                await store.renew([Renewal(job, moment, token, waiting=Waiting())])
            return {
                "namespace": NAMESPACE,
                "job": job,
                "slot": rfc3339(moment),
                "attempt": answer.attempt,
                "token": token,
                "fence": answer.fence,
                "lease": int((answer.lease or terms.lease).total_seconds() * 1000),
                "on_store_error": rule.value,
            }

        return self.ask(claim)

    @staticmethod
    def nap(seconds: float) -> None:
        """Let a while pass."""
        time.sleep(seconds)  # noqa: TID251

    def attempts(self, said: dict[str, Any]) -> tuple[Attempt, ...]:
        """Return the attempts of a run, newest first."""
        return self.ask(lambda store: _history(store, said["job"]))

    def until(
        self, said: dict[str, Any], fits: Callable[[Attempt], bool], seconds: float = 20
    ) -> Attempt:
        """Wait until a run's newest attempt is as it should be."""
        end = time.monotonic() + seconds  # noqa: TID251
        while True:
            (newest, *_) = self.attempts(said)
            if fits(newest):
                return newest
            if time.monotonic() > end:  # noqa: TID251
                raise AssertionError(f"still {newest}")
            time.sleep(0.05)  # noqa: TID251

    def until_taken_over(self, said: dict[str, Any]) -> dict[str, Any] | None:
        """Look again and again, as backups do; `None` if the run has ended instead."""
        end = time.monotonic() + 20  # noqa: TID251
        while time.monotonic() < end:  # noqa: TID251
            taken = self.taken_over(said)
            if taken is not None or self.attempts(said)[0].state.has_ended:
                return taken
            time.sleep(0.05)  # noqa: TID251
        raise AssertionError("neither taken over nor ended")

    def until_overdue(self, said: dict[str, Any]) -> Attempt:
        """Look again and again until the run has ended for want of a worker."""
        assert self.until_taken_over(said) is None
        return self.attempts(said)[0]

    def end_of(self, said: dict[str, Any], seconds: float = 20) -> Attempt:
        """Wait for the end of a run's newest attempt."""
        return self.until(said, lambda attempt: attempt.state.has_ended, seconds)


async def _history(store: LeaseStore, job: str) -> tuple[Attempt, ...]:
    return (await store.history([job], 20)).answers


class TrackedWorker:
    """One `celery worker` process; what it logs is in ``log``."""

    def __init__(
        self,
        broker: str,
        store: str,
        pool: str,
        folder: Path,
        *,
        options: Sequence[str] = (),
        environment: dict[str, str] | None = None,
        libraries: Sequence[Path] = (),
    ) -> None:
        self.pool = pool
        self.queue = f"q-{uuid4().hex[:8]}"
        self.mailbox = Mailbox()
        self.app = Celery("proj", broker=broker, set_as_current=False)
        self._log = folder / f"{self.queue}.log"
        self._options = options
        self._environment = {
            **os.environ,
            "PYTHONPATH": ":".join(map(str, (*libraries, ROOT, ROOT / "integrations"))),
            "PROJECT_BROKER": broker,
            "PROJECT_STORE": store,
            "PROJECT_REPORT_TO": str(self.mailbox.port),
            **(environment or {}),
        }

    def __enter__(self) -> "TrackedWorker":
        self.start()
        self.mailbox.find("ready", seconds=40)
        return self

    def start(self) -> None:
        """Start the process; it may not be ready yet."""
        command = [sys.executable, "-m", "celery", "-A", "tests.celery.tracked_worker", "worker"]
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "info"]
        where = ["-P", self.pool, "-c", "2", "-Q", self.queue, "-n", self.queue]
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, *quiet, *where, *self._options],
                cwd=ROOT,
                env=self._environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                pass
        self.kill()
        self.mailbox.close()
        self.app.close()

    def kill(self) -> None:
        """Kill the worker and its children."""
        kill_group(self.process)

    def frozen(self) -> AbstractContextManager[None]:
        """Let the worker and its children stand still for a while."""
        return frozen_group(self.process)

    @property
    def log(self) -> str:
        return self._log.read_text()

    def send(
        self,
        said: object,
        *args: object,
        task: str = "proj.act",
        id: str | None = None,
        **options: Any,
    ) -> str:
        """Send a message with our header, as a publisher would; return its id."""
        sent = self.app.send_task(
            task, args, headers={HEADER: said}, queue=self.queue, task_id=id, **options
        )
        return str(sent.id)

    def send_untold(self, *args: object, task: str = "proj.act") -> str:
        """Send a message that is none of ours."""
        return str(self.app.send_task(task, args, queue=self.queue).id)


__all__ = ["NAMESPACE", "TestStore", "TrackedWorker"]
