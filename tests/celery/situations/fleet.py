"""Situations that a fleet gets into: real schedulers and workers of one project, and what ran."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kombu import Connection, Exchange, Queue

from tests.servers.process import family_of

ROOT = Path(__file__).resolve().parents[3]
_LEASH = ROOT / "tests" / "servers" / "leash.py"
_PATIENCE = 50.0
_LAST_WORDS = 3000


def tracked(
    what: str = "nothing",
    *,
    queue: str,
    every: Any = 2.0,
    task: str = "situated.work",
    options: Mapping[str, Any] | None = None,
    **ours: Any,
) -> dict[str, Any]:
    """Return an entry whose runs are tracked, and whose lease is short, to lapse soon."""
    anarchon = {"track": True, "lease": "3s", "heartbeat": "1s", **ours}
    return {
        "task": task,
        "schedule": every,
        "args": [what],
        "options": {"queue": queue, **(options or {}), "anarchon": anarchon},
    }


class Process:
    """One process of the fleet, which dies with the test; ``log`` is what it has said."""

    def __init__(self, log: Path, command: list[str], environment: Mapping[str, str]) -> None:
        self._log = log
        leash = [sys.executable, "-I", "-S", str(_LEASH), str(os.getpid()), "0"]
        with log.open("w") as out:
            self._process = subprocess.Popen(
                [*leash, sys.executable, "-m", *command],
                cwd=log.parent,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        self.pid = self._process.pid

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill it and all below it, frozen or not: what a machine that dies does."""
        if self.has_ended:
            return
        for pid in family_of(self.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self._process.wait()

    def end(self) -> int:
        """Stop it gracefully; return its exit code."""
        self.send(signal.SIGTERM)
        return self._process.wait(_PATIENCE)

    def until_says(self, text: str) -> None:
        until(lambda: text in self.log, lambda: f"{text!r} was never said:\n{self.log}")


class Situation:
    """A fleet in one folder, on one broker and one store; whatever it starts, it ends."""

    def __init__(self, folder: Path, broker: str, store: str, namespace: str) -> None:
        self._folder = folder
        self._notes = folder / "notes"
        self._notes.touch()
        self._numbers = itertools.count()
        self._broker = broker
        self._settings = {"anarchon_store": store, "anarchon_namespace": namespace}
        self.processes: list[Process] = []

    def beat(self, entries: Mapping[str, Any], trouble: str = "") -> Process:
        """Start an `anarchon-beat`; ``trouble`` is what it comes to: "sent frozen", say."""
        command = ["anarchon_beat", "-A", "tests.celery.situations.project", "-l", "info"]
        return self._start("beat", command, entries, SITUATION_TROUBLE=trouble)

    def worker(
        self,
        queue: str,
        *options: str,
        entries: Mapping[str, Any] | None = None,
        plain: bool = False,
        **settings: Any,
    ) -> Process:
        """Start a worker and wait until it is ready; with ``entries`` it runs the schedule too."""
        name = f"{queue}-{next(self._numbers)}"
        command = ["celery", "-A", "tests.celery.situations.project", "worker", "-l", "info"]
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        where = ["-Q", queue, "-n", name, *(options or ("-P", "prefork", "-c", "2"))]
        settings = {"anarchon_embedded": entries is not None, **settings}
        environment = {"SITUATION_IS_PLAIN": "1"} if plain else {}
        worker = self._start("worker", [*command, *quiet, *where], entries, settings, **environment)
        until(
            lambda: any(n["what"] == "ready" and n["pid"] == worker.pid for n in self.notes()),
            lambda: worker.log,
        )
        return worker

    def _start(
        self,
        kind: str,
        command: list[str],
        entries: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        **environment: str,
    ) -> Process:
        log = self._folder / f"{kind}-{next(self._numbers)}.log"
        process = Process(log, command, self._environment(entries, settings, environment))
        self.processes.append(process)
        return process

    def _environment(
        self,
        entries: Mapping[str, Any] | None,
        settings: Mapping[str, Any] | None = None,
        more: Mapping[str, str] | None = None,
    ) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": f"{ROOT}:{ROOT / 'integrations'}",
            "SITUATION_BROKER": self._broker,
            "SITUATION_ENTRIES": json.dumps(entries or {}),
            "SITUATION_NOTES": str(self._notes),
            "SITUATION_SETTINGS": json.dumps({**self._settings, **(settings or {})}),
            **(more or {}),
        }

    def close(self) -> None:
        """Leave no process behind."""
        for process in self.processes:
            process.kill()

    def notes(self) -> list[dict[str, Any]]:
        """Return all that was noted so far."""
        # the last line may be half written
        lines = self._notes.read_text().split("\n")[:-1]
        return [json.loads(line) for line in lines]

    def until_noted(self, what: str, job: str) -> dict[str, Any]:
        """Wait for the first note of this kind on a job."""
        found: list[dict[str, Any]] = []

        def look() -> bool:
            found[:] = [n for n in self.notes() if n["what"] == what and n.get("job") == job]
            return bool(found)

        until(look, self.logs)
        return found[0]

    def ran(self, job: str) -> list[dict[str, Any]]:
        """Return how often the body of a job's task was entered, and for which run."""
        return [n for n in self.notes() if n["what"] == "ran" and n["job"] == job]

    def ran_for(self, job: str, slot: str) -> list[dict[str, Any]]:
        """Return the same for one slot."""
        return [body for body in self.ran(job) if body["slot"] == slot]

    def until_ran(self, job: str, condition: Callable[[list[dict[str, Any]]], bool]) -> None:
        """Wait until what a job's task has done is as it should be."""
        until(lambda: condition(self.ran(job)), self.logs)

    def until_more_ran(self, job: str, slots: int = 2) -> None:
        """Wait until a job has run for so many slots after the newest one it ran for so far."""
        newest = max((body["slot"] for body in self.ran(job)), default="")
        self.until_ran(
            job, lambda ran: len({b["slot"] for b in ran if b["slot"] > newest}) >= slots
        )

    def history(self, job: str, slot: str | None = None) -> list[dict[str, Any]]:
        """Return what `anarchon-beat history --json` tells of a job, or of one slot of it."""
        command = [sys.executable, "-m", "anarchon_beat", "-A", "tests.celery.situations.project"]
        done = subprocess.run(
            [*command, "history", "--job", job, "--json", "--limit", "1000"],
            cwd=self._folder,
            env=self._environment({job: {"task": "situated.work", "schedule": 3600.0}}),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        attempts: list[dict[str, Any]] = json.loads(done.stdout)["attempts"]
        told = [a for a in attempts if slot in (None, a["slot"])]
        return sorted(told, key=lambda a: (a["slot"], a["attempt"]))

    def until_published(self, job: str) -> str:
        """Wait for the first slot of a job that somebody has claimed, and return it."""
        until(lambda: bool(self.history(job)), self.logs)
        return str(self.history(job)[0]["slot"])

    def until_told(
        self, job: str, slot: str, condition: Callable[[list[dict[str, Any]]], bool]
    ) -> list[dict[str, Any]]:
        """Wait until the history of a slot is as it should be, and return it."""
        told: list[dict[str, Any]] = []

        def look() -> bool:
            told[:] = self.history(job, slot)
            return condition(told)

        until(look, lambda: f"{told}\n{self.logs()}")
        return told

    def logs(self) -> str:
        """Return the last words of everybody."""
        return "\n".join(f"--- {p.pid}\n{p.log[-_LAST_WORDS:]}" for p in self.processes)

    def waiting(self, queue: str) -> "Mail":
        """Return the messages of a queue, as one may take them out and put them back."""
        return Mail(self._broker, queue)


class Mail:
    """A queue, whose messages can be taken out, and sent as often as one likes."""

    def __init__(self, broker: str, name: str) -> None:
        self._broker = broker
        self._name = name

    def repeat(self, times: int) -> dict[str, Any]:
        """Wait for a message and send it so many times in its own place; return its headers."""
        with Connection(self._broker) as connection:
            message = self._take(connection)
            producer = connection.Producer()
            for _ in range(times):
                producer.publish(
                    message.body,
                    exchange=message.delivery_info["exchange"],
                    routing_key=message.delivery_info["routing_key"],
                    headers=message.headers,
                    content_type=message.content_type,
                    content_encoding=message.content_encoding,
                    **_kept(message.properties),
                )
            return dict(message.headers)

    def _take(self, connection: Connection) -> Any:
        queue = Queue(self._name, Exchange(self._name), routing_key=self._name)
        bound = queue.bind(connection.default_channel)
        bound.declare()
        taken: list[Any] = []

        def look() -> bool:
            message = bound.get(no_ack=True)
            if message is not None:
                taken.append(message)
            return bool(taken)

        until(look, lambda: f"nothing came into {self._name}")
        return taken[0]


def _kept(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {name: it for name, it in properties.items() if name in ("correlation_id", "reply_to")}


def once_each(bodies: list[dict[str, Any]]) -> bool:
    """Tell whether no slot was worked on twice."""
    return all(count == 1 for count in Counter(body["slot"] for body in bodies).values())


def until(condition: Callable[[], bool], say: Callable[[], str]) -> None:
    """Ask again and again until it is so."""
    end = time.monotonic() + _PATIENCE  # noqa: TID251
    while not condition():
        assert time.monotonic() < end, say()  # noqa: TID251
        time.sleep(0.1)  # noqa: TID251


__all__ = ["Process", "Situation", "once_each", "tracked", "until"]
