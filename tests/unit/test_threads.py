"""Threads of the operating system, with and without greenlets."""

import subprocess
import sys
import threading

from anarchon.threads import Flag, OSThread

GREEN = """
from gevent import monkey
monkey.patch_all()
import asyncio, threading, time
import gevent
from anarchon.threads import Flag, OSThread, native_lock
"""

WAITS = """
done, counted, ran = Flag(), [], []

async def work():
    ran.append(asyncio.get_running_loop())
    await asyncio.get_running_loop().run_in_executor(None, time.sleep, 0.3)
    done.set()

async def other():
    # a loop of this greenlet's, beside the one on the thread
    await asyncio.sleep(0.1)

def count():
    while not done.is_set():
        counted.append(1)
        gevent.sleep(0.01)

thread = OSThread(lambda: asyncio.run(work()), "worker")
thread.start()
counting = gevent.spawn(count)
asyncio.run(other())
assert not done.wait(0.01) and done.wait(5)
thread.join()
assert done.wait(0) and not thread.is_alive()
print(len(ran), len(counted) > 5)
"""

RACES = """
def once():
    flag = Flag()
    thread = OSThread(flag.set, "quick")
    thread.start()
    assert flag.wait(5)
    thread.join(5)
    assert not thread.is_alive()

def many():
    for _ in range(50):
        once()

gevent.joinall([gevent.spawn(many) for _ in range(4)], raise_error=True)
print("all woke")
"""

SLOWLY = """
import sys

class Slow:
    def find_spec(self, name, path=None, target=None):
        monkey.get_original("time", "sleep")(0.1)

sys.meta_path.insert(0, Slow())
thread = OSThread(gevent.get_hub, "worker")
thread.start()
gevent.get_hub()
thread.join(5)
print(thread.is_alive())
"""

SCHEDULES = """
from anarchon import Scheduler

ran = Flag()
scheduler = Scheduler("sqlite:///%s")

def body(ctx):
    time.sleep(0.05)
    ran.set()

async def coroutine(ctx):
    await asyncio.sleep(0.05)

scheduler.every("job", "200ms", body)
scheduler.every("async", "200ms", coroutine)
with scheduler.start_in_background():
    assert ran.wait(10)
    time.sleep(1)
history = asyncio.run(scheduler.history("async"))
print({attempt.state.value for attempt in history}, len(history) > 2)
"""


def _green(script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", GREEN + script], capture_output=True, text=True, timeout=40
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr
    return done.stdout.strip()


def test_whoever_waits_for_a_flag_hears_that_it_was_set() -> None:
    flag = Flag()
    assert not flag.wait(0)

    thread = OSThread(flag.set, "setter")
    thread.start()

    assert flag.wait(5)
    thread.join()
    assert flag.wait()
    assert flag.is_set()


def test_a_thread_has_its_name_and_lets_the_program_end() -> None:
    names: list[tuple[str, bool]] = []

    def tell() -> None:
        names.append((threading.current_thread().name, threading.current_thread().daemon))

    thread = OSThread(tell, "somebody")
    thread.start()
    thread.join()

    assert names == [("somebody", True)]


def test_a_greenlet_that_waits_lets_the_others_run_beside_a_loop_on_a_thread() -> None:
    assert _green(WAITS) == "1 True"


def test_no_flag_set_among_greenlets_and_threads_is_missed() -> None:
    assert _green(RACES) == "all woke"


def test_two_threads_get_their_hubs_while_gevent_still_imports_its_loop() -> None:
    assert _green(SLOWLY) == "False"


def test_a_whole_scheduler_runs_beside_greenlets(tmp_path: object) -> None:
    assert _green(SCHEDULES % f"{tmp_path}/store.db") == "{'success'} True"
