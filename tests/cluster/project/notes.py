"""What the work writes down: one line a note, in a file that only grows, by the time since boot."""

import json
import os
import threading
import time
from contextlib import contextmanager

#: A shorter one is well within what the checker is patient with.
_LOOK, _STALLED = 0.1, 0.8


def note(what, **said):
    """Write one line; whoever is killed has written it or not."""
    by = os.environ.get("CLUSTER_INSTANCE", "")
    line = json.dumps({"what": what, "by": by, "at": boot(), **said}) + "\n"
    file = os.open(os.environ["CLUSTER_NOTES"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(file, line.encode())
    os.close(file)


def boot():
    """Return what no fault of a clock moves."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def tell_stalls():
    """Write down when this process did not get to run: a busy machine freezes as a SIGSTOP does."""
    threading.Thread(target=_watch_for_stalls, name="stalls", daemon=True).start()


def _watch_for_stalls():
    # not time.sleep, which fails in front of a wall clock that was set back
    never = threading.Event()
    awake = boot()
    while True:
        never.wait(_LOOK)
        since, awake = awake, boot()
        if awake - since > _STALLED:
            note("stalled", since=since)


@contextmanager
def noted(ctx):
    """Write down that the work began, and that it ended."""
    slot = ctx.slot.isoformat()
    said = {"job": ctx.job, "slot": slot, "attempt": ctx.attempt, "fence": ctx.fence}
    note("began", **said)
    failed = True
    try:
        yield
        failed = False
    finally:
        note("ended", **said, failed=failed)
