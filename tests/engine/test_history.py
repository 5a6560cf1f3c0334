"""The history may be asked for from wherever the asker is."""

import asyncio

from anarchon import Scheduler
from anarchon.backends.memory import MemoryBackend


def test_the_history_of_a_scheduler_in_the_background_is_read_on_another_loop():
    scheduler = Scheduler(MemoryBackend())
    scheduler.every("sync", "1h", lambda ctx: None)

    with scheduler.start_in_background():
        attempts = asyncio.run(scheduler.history("sync"))

    assert attempts == ()
