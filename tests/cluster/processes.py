"""A cluster of real processes: instances of `anarchon-beat` and one `celery worker`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

Record = dict[str, Any]

BIN = Path(sys.executable).parent
PROJECT = Path(__file__).parent / "project" / "proj.py"
_LEASH = Path(__file__).parents[1] / "servers" / "leash.py"


@dataclass
class Instance:
    """One `anarchon-beat` process, and when it was up: ready, not frozen, not told to stop."""

    process: subprocess.Popen[bytes]
    folder: Path
    started: float
    ups: list[tuple[float, float]] = field(default_factory=list)
    harmed: list[float] = field(default_factory=list)
    _up_since: float | None = None

    @property
    def name(self) -> str:
        """Return the instance's id, as the history shows it."""
        for line in (self.folder / "out").read_text().splitlines():
            if ". instance -> " in line:
                return line.split("-> ")[1].strip()
        raise AssertionError(f"no banner: {self.log()}")

    def log(self) -> str:
        return (self.folder / "out").read_text()

    def is_ready(self, environment: dict[str, str]) -> bool:
        command = [str(BIN / "anarchon-beat"), "--health-file", str(self.folder / "health")]
        return (
            subprocess.run(
                [*command, "health", "--ready"], env=environment, capture_output=True
            ).returncode
            == 0
        )

    def is_up(self) -> None:
        self._up_since = time.time()

    def is_down(self) -> None:
        if self._up_since is not None:
            self.ups.append((self._up_since, time.time()))
        self._up_since = None


class Cluster:
    """The processes of one test; `store` is where the instances meet."""

    def __init__(self, folder: Path, store: str, broker: str, options: dict[str, str]) -> None:
        self.folder = folder
        self.records_file = folder / "records"
        self.records_file.touch()
        self.instances: list[Instance] = []
        self._worker: subprocess.Popen[bytes] | None = None
        self._store = store
        shutil.copy(PROJECT, folder)
        self.environment = {
            **os.environ,
            "CLUSTER_BROKER": broker,
            "CLUSTER_BROKER_OPTIONS": json.dumps(options),
            "CLUSTER_RECORDS": str(self.records_file),
            "PYTHONUNBUFFERED": "1",
        }

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        processes = [i.process for i in self.instances] + [p for p in [self._worker] if p]
        for process in processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()

    def start_worker(self) -> None:
        command = [str(BIN / "celery"), "-A", "proj", "worker", "--pool", "solo", "-l", "warning"]
        self._worker = self._spawn(command, self.folder / "worker.log")

    def start_instance(self, **environment: str) -> Instance:
        folder = self.folder / f"instance{len(self.instances)}"
        folder.mkdir()
        command = [str(BIN / "anarchon-beat"), "-A", "proj", "--store", self._store, "-l", "info"]
        command += ["--health-file", str(folder / "health")]
        process = self._spawn(command, folder / "out", environment)
        instance = Instance(process, folder, time.time())
        self.instances.append(instance)
        return instance

    def wait_until_ready(self, *instances: Instance) -> None:
        for instance in instances:
            self.wait_for(partial(instance.is_ready, self.environment), 60, instance.log)
            instance.is_up()

    def kill(self, instance: Instance) -> None:
        instance.is_down()
        instance.harmed.append(time.time())
        instance.process.kill()
        instance.process.wait()

    def freeze(self, instance: Instance) -> None:
        instance.is_down()
        instance.harmed.append(time.time())
        instance.process.send_signal(signal.SIGSTOP)

    def thaw(self, instance: Instance) -> None:
        instance.process.send_signal(signal.SIGCONT)
        instance.is_up()

    def stop(self, *instances: Instance) -> None:
        """Stop gracefully, all at the same time."""
        for instance in instances:
            instance.is_down()
            instance.process.send_signal(signal.SIGTERM)
        for instance in instances:
            assert instance.process.wait(40) == 0, instance.log()

    def history(self) -> list[Record]:
        command = [str(BIN / "anarchon-beat"), "-A", "proj", "--store", self._store]
        command += ["history", "--json", "--limit", "100000"]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, check=True
        )
        told = json.loads(done.stdout)
        assert told["version"] == "anarchon.history/1"
        attempts: list[Record] = told["attempts"]
        return attempts

    def records(self) -> list[Record]:
        return [json.loads(line) for line in self.records_file.read_text().splitlines()]

    def wait_until_consumed(self) -> list[Record]:
        """Wait until the worker has run everything that was published, and return its records."""
        published = {a["detail"] for a in self.history() if a["state"] == "published"}

        def all_ran() -> bool:
            return published <= {record["message"] for record in self.records()}

        self.wait_for(all_ran, 60, lambda: (self.folder / "worker.log").read_text()[-3000:])
        return self.records()

    @staticmethod
    def wait_for(condition: Callable[[], bool], seconds: float, say: Callable[[], str]) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"not within {seconds} s: {say()[-3000:]}"
            time.sleep(0.1)

    def _spawn(
        self,
        command: list[str],
        output: Path,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> subprocess.Popen[bytes]:
        leash = [sys.executable, "-I", "-S", str(_LEASH), str(os.getpid()), "0"]
        with output.open("ab") as out:
            return subprocess.Popen(
                [*leash, *command],
                cwd=self.folder,
                env={**self.environment, **environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
