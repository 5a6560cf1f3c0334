"""A cluster of real processes: places for instances, one store, one broker, one Celery worker."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from tests.cluster.clocks import WallClock
from tests.cluster.kinds import PROJECT
from tests.cluster.noted import Notes
from tests.cluster.places import BIN, Kind, Place, State, spawn
from tests.cluster.stores import Store
from tests.cluster.ways import Way

_LOOK = 0.05
_LAST_WORDS = 5000
# long enough for a machine on which much else is going on
_READY_WITHIN, _STOPPED_WITHIN, _READ_WITHIN = 180.0, 60.0, 60.0


class Cluster:
    """The processes of one test, all in one folder."""

    def __init__(
        self,
        folder: Path,
        store: Store,
        broker: str,
        options: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.folder = folder
        self.store = store
        self.broker = broker
        self.places: list[Place] = []
        #: What else is to be closed when everything has ended.
        self.left = ExitStack()
        self.notes = Notes(folder / "notes")
        self._worker: subprocess.Popen[bytes] | None = None
        for file in PROJECT.glob("*.py"):
            shutil.copy(file, folder)
        self.environment = {
            **os.environ,
            "CLUSTER_BROKER_OPTIONS": json.dumps(dict(options)),
            "CLUSTER_NOTES": str(self.notes.file),
            "CLUSTER_CLAIMS_ONLY": "" if store.keeps_leases else "1",
            "PYTHONUNBUFFERED": "1",
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self.left:
            self._end()

    def _end(self) -> None:
        for place in self.places:
            place.end()
        if self._worker is not None:
            self._worker.kill()
            self._worker.wait()

    def add(
        self,
        kind: Kind,
        way: Way,
        *,
        makes: type[Place] = Place,
        broker: str | None = None,
        wall_clock: WallClock | None = None,
        other_code: str | None = None,
        **environment: str,
    ) -> Place:
        """Make one more place; ``broker`` is where it is told the broker is."""
        told = {
            "CLUSTER_BROKER": broker or self.broker,
            "CLUSTER_STORE": self.store.url(way.host, way.port),
        }
        place = makes(
            number=len(self.places),
            kind=kind,
            folder=self.folder,
            environment={**self.environment, **told, **environment},
            way=way,
            wall_clock=wall_clock,
            other_code=other_code,
        )
        self.places.append(place)
        return place

    def start_worker(self) -> None:
        worker = ["-A", "proj", "worker", "--pool", "solo", "-l", "warning"]
        command = [str(BIN / "celery"), *worker]
        environment = {**self.environment, "CLUSTER_BROKER": self.broker}
        self._worker = spawn(command, self.folder, self.folder / "worker.log", environment)

    def look(self) -> None:
        """See how every place is doing."""
        for place in self.places:
            place.look()

    def watch(self, seconds: float) -> None:
        """Look at the places again and again for some time."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.look()
            time.sleep(min(_LOOK, left))

    def start(self, *places: Place) -> None:
        """Start instances at these places and wait until they are ready."""
        for place in places:
            place.start()
        self.wait_until_ready(*places)

    def wait_until_ready(self, *places: Place) -> None:
        self.wait_for(
            lambda: all(place.state is State.UP for place in places),
            _READY_WITHIN,
            lambda: "\n".join(p.log() for p in places if p.state is not State.UP),
        )

    def stop(self, *places: Place) -> None:
        """Stop instances gracefully, all at the same time."""
        for place in places:
            place.tell_to_stop()
        self.wait_for(
            lambda: all(place.state is State.DOWN or place.has_stopped() for place in places),
            _STOPPED_WITHIN,
            lambda: "\n".join(place.log() for place in places),
        )

    def wait_until_consumed(self) -> None:
        """Wait until the worker has run everything that was sent."""
        self.wait_for(
            lambda: not self.notes.unread_messages(),
            _READ_WITHIN,
            lambda: (self.folder / "worker.log").read_text(),
        )

    def wait_for(
        self, condition: Callable[[], bool], seconds: float, say: Callable[[], str]
    ) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"not within {seconds} s: {say()[-_LAST_WORDS:]}"
            self.look()
            time.sleep(_LOOK)

    def history(self, *named: str) -> list[dict[str, Any]]:
        """Return what `anarchon-beat history` tells of a project, named by its options."""
        command = [str(BIN / "anarchon-beat"), *(named or ("-A", "proj")), "history", "--json"]
        environment = {**self.environment, **self.places[0].environment}
        done = subprocess.run(
            [*command, "--limit", "100000"],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            check=True,
        )
        told = json.loads(done.stdout)
        assert told["version"] == "anarchon.history/1"
        attempts: list[dict[str, Any]] = told["attempts"]
        return attempts
