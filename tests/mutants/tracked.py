"""Mutants of what becomes of a tracked run once it is sent."""

from tests.mutants.mutant import without

_EXECUTOR = "anarchon/scheduler/executor.py"
_RECORDER = "anarchon/scheduler/lease_recorder.py"
_ACTIONS = "anarchon/scheduler/actions.py"
_BACKLOG = "anarchon/scheduler/backlog.py"
_RUNNER = "anarchon/scheduler/lease_runner.py"
_TRACKED = ("tests/engine/test_tracked.py", "tests/engine/test_tracked_trouble.py")
_TOLD = ("tests/engine/test_backlog.py",)

TRACKED = (
    without(
        "the lease given up as soon as it is sent",
        _RECORDER,
        "self._keeper.drop(held)\n            emit_ending",
        "emit_ending",
        *_TRACKED,
    ),
    without(
        "the mark of what waits",
        _RECORDER,
        "await self._backlog.mark(job, held, ctx, self._may_give_up)",
        "pass",
        *_TRACKED,
    ),
    without(
        "a watch on what was sent",
        _RECORDER,
        "await self._backlog.mark(job, held, ctx, self._may_give_up)\n            return False",
        "await self._backlog.mark(job, held, ctx, self._may_give_up)\n            return True",
        *_TRACKED,
    ),
    without(
        "a look in time at what waits",
        _RUNNER,
        "spare=answer.lease if answer.waits else None",
        "spare=answer.lease and 2 * answer.lease if answer.waits else None",
        *_TRACKED,
    ),
    without(
        "the patience with what waits",
        _RUNNER,
        "spare=answer.lease if answer.waits else None",
        "spare=None",
        *_TOLD,
    ),
    without(
        "the lateness of what others could not send either",
        _ACTIONS,
        "return await was_begun(work.job, ctx.slot) is False",
        "return False",
        *_TRACKED,
    ),
    without(
        "the lateness that does not count for work that was begun",
        _ACTIONS,
        "return await was_begun(work.job, ctx.slot) is False",
        "return True",
        *_TRACKED,
    ),
    without(
        "a run that is sent as it was claimed first",
        _EXECUTOR,
        "if job.on_store_error is None or answer.start_by is None:",
        "if job.on_store_error is None:",
        *_TRACKED,
    ),
    without(
        "one warning a job",
        _BACKLOG,
        "self._told.add(job.name)",
        "pass",
        *_TOLD,
    ),
    without(
        "a warning again after a worker came",
        _BACKLOG,
        "if answer.outcome is not Outcome.NONE and not over:",
        "if False:",
        *_TOLD,
    ),
    without(
        "no warning of what waits for its retry",
        _BACKLOG,
        "        if begun:\n",
        "        if False:\n",
        *_TOLD,
    ),
)
