"""Handlers that fork: signals to their children are the children's alone."""

import signal
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import asyncio, multiprocessing, signal, sys, time
from anarchon import Scheduler

scheduler = Scheduler("memory://")

def sleep():
    time.sleep(60)

@scheduler.every("fork", "1s")
def fork(ctx):
    child = multiprocessing.get_context("fork").Process(target=sleep)
    child.start()
    time.sleep(0.1)
    child.terminate()
    child.join(10)
    print("CHILD", child.exitcode, flush=True)

asyncio.run(scheduler.run())
print("ENDED", flush=True)
"""


def test_a_child_that_is_terminated_ends_and_the_scheduler_does_not(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", SCRIPT],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    assert process.stdout is not None
    try:
        told = [process.stdout.readline() for _ in range(3)]
        process.send_signal(signal.SIGTERM)
        rest = process.communicate(timeout=30)[0]
    finally:
        process.kill()
        process.wait()

    assert told == [f"CHILD {-signal.SIGTERM}\n"] * 3
    assert rest.endswith("ENDED\n")
