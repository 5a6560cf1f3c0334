"""Mutants of how schedules are asked that cannot tell their slots beforehand."""

from tests.mutants.mutant import without

_POLLING = "anarchon/scheduler/polling.py"
_RUNNER = "anarchon/scheduler/lease_runner.py"
_TESTS = ("tests/engine/test_polled.py",)

POLLED = (
    without(
        "the slot that a polled one was found by, in its claim",
        _POLLING,
        "within, after=newest)",
        "within)",
        *_TESTS,
    ),
    without(
        "a look at what the store knows once a polled slot was another's",
        _RUNNER,
        "if after is not None and answer.outcome is Outcome.DONE:\n            self._recover(job)",
        "if after is not None and answer.outcome is Outcome.DONE:\n            pass",
        *_TESTS,
    ),
    without(
        "the newest slot that a polled rule was told, kept over a wait",
        _POLLING,
        "within, after=newest)",
        "within, after=asked.newest)",
        *_TESTS,
    ),
    without(
        "the time before an edit, left alone by a polled schedule",
        _POLLING,
        "newest = max(known.newest, known.first_seen)",
        "newest = known.newest",
        *_TESTS,
    ),
    without(
        "the end of a claim of a polled slot with its own next question",
        _POLLING,
        "min(job.max_late, max(step, _LEAST_LATE))",
        "job.max_late",
        *_TESTS,
    ),
    without(
        "the least time between two polled slots",
        _POLLING,
        "elif slot < asked.newest + SHORTEST:",
        "elif slot <= asked.newest:",
        *_TESTS,
    ),
)
