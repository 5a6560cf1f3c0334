"""Real `dramatiq` commands, each with a lock folder of its own, as if in a pod."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from tests.celery.mailbox import Mailbox
from tests.celery.tracked import TestStore
from tests.groups import frozen_group, kill_group

ROOT = Path(__file__).resolve().parent.parent.parent


class Pod:
    """One `dramatiq` master and its processes; what they log is in ``log``."""

    def __init__(self, name: str, folder: Path, host: str, environment: dict[str, str]) -> None:
        self.name = name
        runtime = folder / host
        runtime.mkdir(exist_ok=True)
        self._log = folder / f"{name}.log"
        self._environment = {**environment, "XDG_RUNTIME_DIR": str(runtime)}

    def start(self, processes: int, threads: int = 4, program: str = "dramatiq") -> None:
        """Start it; its processes may not be ready yet."""
        command = [str(Path(sys.executable).parent / program), "tests.dramatiq.project"]
        with self._log.open("a") as log:
            self.process = subprocess.Popen(
                [*command, "-p", str(processes), "-t", str(threads)],
                cwd=ROOT,
                env=self._environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def engines(self) -> list[int]:
        """The processes that came to run the schedule, in that order."""
        found = re.findall(r"\[PID (\d+)\].*this process runs the schedule", self.log)
        return [int(pid) for pid in found]

    @property
    def pids(self) -> set[int]:
        """The processes of this pod that are ready for messages."""
        found = re.findall(r"\[PID (\d+)\].*Worker process is ready for action", self.log)
        return {int(pid) for pid in found}

    def send(self, number: signal.Signals) -> None:
        """Send a signal to its master, as a container's runtime does."""
        self.process.send_signal(number)

    def end(self, seconds: float = 30) -> int:
        """Stop it as on a deploy, and return its exit code."""
        self.send(signal.SIGTERM)
        return self.process.wait(seconds)

    def kill(self) -> None:
        """Kill all of it."""
        kill_group(self.process)

    def frozen(self) -> AbstractContextManager[None]:
        """Let all of it stand still for a while."""
        return frozen_group(self.process)


class Place:
    """A broker, a store and a mailbox that the pods of one test share."""

    def __init__(self, folder: Path, broker: str, results: str, store: str) -> None:
        self.folder = folder
        self.mailbox = Mailbox()
        self.store = TestStore(store)
        self.broker = broker
        self.results = results
        self.queue = f"q-{os.urandom(4).hex()}"
        #: More of the environment of its pods.
        self.environment: dict[str, str] = {}
        self.pods: list[Pod] = []

    def pod(
        self,
        schedules: dict[str, Any] | None = None,
        *,
        processes: int = 1,
        host: str = "",
        program: str = "dramatiq",
    ) -> Pod:
        """Start a pod whose project has these schedules."""
        name = f"pod-{len(self.pods)}"
        environment = {
            **os.environ,
            "PYTHONPATH": f"{ROOT}:{ROOT / 'integrations'}",
            "PROJECT_BROKER": self.broker,
            "PROJECT_RESULTS": self.results,
            "PROJECT_STORE": self.store.url,
            "PROJECT_QUEUE": self.queue,
            "PROJECT_REPORT_TO": str(self.mailbox.port),
            "PROJECT_SCHEDULES": json.dumps(schedules or {}),
            **self.environment,
        }
        pod = Pod(name, self.folder, host or name, environment)
        pod.start(processes, program=program)
        self.pods.append(pod)
        self.until(lambda: len(pod.pids) == processes, pod)
        return pod

    def until(self, condition: Any, pod: Pod, seconds: float = 40) -> None:
        """Ask again and again until it is so."""
        for _ in range(int(seconds / 0.05)):
            if condition():
                return
            self.store.nap(0.05)
        raise AssertionError(f"it never came to be:\n{pod.log}")

    def close(self) -> None:
        for pod in self.pods:
            pod.kill()
        self.mailbox.close()
