"""Mutants of the scheduler: its timers, its backups, how it starts, goes on and stops."""

from tests.mutants.mutant import Edit, Mutant, without

_TIMERS = "anarchon/scheduler/timers.py"
_LIFE = "anarchon/scheduler/life.py"
_RUNNER = "anarchon/scheduler/lease_runner.py"
_DEALINGS = "anarchon/scheduler/by_leases.py"
_RECOVERY = "anarchon/scheduler/recovery.py"
_RECORDER = "anarchon/scheduler/lease_recorder.py"
_GAPS = ("tests/engine/test_clocks.py", "tests/engine/test_outages.py")
_STARTS = ("tests/engine/test_catch_up.py", "tests/engine/test_declaring.py")
_STOPS = ("tests/engine/test_stopping.py",)
_BACKUPS = ("tests/engine/test_takeover.py", "tests/engine/test_overlap.py")

ENGINE = (
    Mutant(
        "the next slot armed before this one is handed out",
        (
            Edit(
                _TIMERS,
                "try:\n                self._arm_next(armed, now)",
                "try:\n                self.handed_out.append(armed)",
            ),
            Edit(_TIMERS, "self._heap: list[_Armed] = []", "self._heap = []; self.handed_out = []"),
            Edit(
                _LIFE,
                "self._hand_out(due)\n        #",
                "self._hand_out(due)\n"
                "            self._timers._arm_next(self._timers.handed_out.pop(), self.core.now())"
                "\n        #",
            ),
        ),
        ("tests/engine/test_isolation.py",),
    ),
    without(
        "the next slot derived from this one",
        _TIMERS,
        "if newest is None or newest <= following:\n            self._arm(job, following)",
        "if newest is None or newest <= following:\n"
        "            self._arm(job, job.schedule.next_after(now))",
        "tests/unit/test_timers.py",
    ),
    without(
        "the jump over what is too late",
        _TIMERS,
        "newest = job.schedule.latest_at(now)",
        "pass",
        "tests/unit/test_timers.py",
    ),
    without(
        "slots armed anew when the clock went back",
        _TIMERS,
        "broken += self._arm_anew(now)",
        "pass",
        "tests/unit/test_timers.py",
    ),
    without(
        "the same slot armed again after an early wake",
        _RUNNER,
        "            self.start(due, mode, heard)\n            return\n",
        "            return\n",
        "tests/engine/test_clocks.py",
        "tests/engine/test_slots.py",
    ),
    without(
        "recovery after a gap in this process",
        _LIFE,
        "if gap > self._shortest_lease:",
        "if gap is None:",
        "tests/engine/test_clocks.py",
    ),
    without(
        "recovery after an outage of the store",
        _LIFE,
        "if self.is_loaded and seconds > self._shortest_lease:",
        "if seconds is None:",
        "tests/engine/test_outages.py",
    ),
    without(
        "recovery of slots that were jumped over",
        _LIFE,
        "self._recover(missed)",
        "pass",
        "tests/engine/test_clocks.py",
        "tests/engine/test_takeover.py",
    ),
    Mutant(
        "the bound of a catch-up",
        (
            Edit(_RECOVERY, "max(what.first_seen, time - job.catch_up)", "what.first_seen"),
            Edit(_RECOVERY, "if time - slot >= job.catch_up or any(", "if any("),
            Edit(
                _RECOVERY, "Due(job, slot, job.catch_up)", "Due(job, slot, timedelta(days=36500))"
            ),
        ),
        _STARTS,
    ),
    without(
        "no catch-up at a start before a schedule was first seen",
        _RECOVERY,
        "max(what.first_seen, time - job.catch_up)",
        "time - job.catch_up",
        *_STARTS,
    ),
    without(
        "no catch-up after a gap before a schedule was first seen",
        _RECOVERY,
        "if newest is None or newest <= what.first_seen:",
        "if newest is None:",
        *_STARTS,
        *_GAPS,
    ),
    without(
        "an older run left to the next claim",
        _RECOVERY,
        "elif newest is None or run.slot >= newest or job.overlap is Overlap.ALLOW:",
        "else:",
        *_STARTS,
    ),
    without(
        "timers that go on where recovery ended",
        _LIFE,
        "self._tell_broken(self._timers.start(jobs, await self.dealings.begin(jobs)))",
        "await self.dealings.begin(jobs)\n"
        "        self._tell_broken(self._timers.start(jobs, self.core.now()))",
        *_STARTS,
    ),
    without(
        "the release of what a stop interrupts",
        _RECORDER,
        "await self._give_back(job, held, answer.attempt, ending)",
        "pass",
        *_STOPS,
    ),
    without(
        "the answers to claims on the wire at a stop",
        _RUNNER,
        "answered = await self._ask(\n"
        "            job,\n"
        "            slot,\n"
        "            mode,\n"
        "            within,\n"
        "            lambda: core.is_stopping or core.now() > latest,\n"
        "            after=due.after,\n"
        "        )",
        "with core.droppable():\n"
        "            answered = await self._ask(\n"
        "                job, slot, mode, within,\n"
        "                lambda: core.is_stopping or core.now() > latest,\n"
        "                after=due.after,\n"
        "            )",
        *_STOPS,
    ),
    without(
        "no claim once a stop has begun",
        "anarchon/scheduler/core.py",
        "if self.is_stopping:\n            raise asyncio.CancelledError",
        "pass",
        *_STOPS,
    ),
    without(
        "no handler once a stop has begun",
        _RECORDER,
        "return not self._core.is_stopping and held",
        "return held",
        *_STOPS,
    ),
    without(
        "the lease of a thread that outlives a stop",
        _LIFE,
        "await self._wait_for_bodies()\n",
        "pass\n",
        *_STOPS,
    ),
    without(
        "a watch on whoever holds the run",
        _RUNNER,
        "elif answer.outcome is Outcome.RUNNING or (",
        "elif answer is None and (",
        *_BACKUPS,
    ),
    without(
        "a watch on the run that is in the way",
        _RUNNER,
        "if answer.blocker is not None:",
        "if answer is None:",
        *_BACKUPS,
    ),
    without(
        "a watch on a slot that found no place in time",
        _RUNNER,
        'self._skip(job, slot, "late")\n            self._watch(job, slot)',
        'self._skip(job, slot, "late")',
        *_BACKUPS,
    ),
    without(
        "a watch on a run that was lost or handed over",
        _RUNNER,
        "if not await self._executor.carry_out(job, held, won, within):",
        "if await self._executor.carry_out(job, held, won, within) is None:",
        *_BACKUPS,
    ),
    without(
        "the store's word on the end of a run",
        _RECORDER,
        "if not accepted.answer:",
        "if accepted is None:",
        *_BACKUPS,
    ),
    without(
        "another callback's peace when one raises",
        "anarchon/scheduler/core.py",
        'except (Exception, SystemExit):\n                log.exception("callback failed: %r on',
        'except ArithmeticError:\n                log.exception("callback failed: %r on',
        "tests/engine/test_isolation.py",
    ),
    without(
        "a run claimed anew that the store has lost",
        _RUNNER,
        "if was_seen and is_ours and late <= within:",
        "if late < timedelta(0):",
        "tests/engine/test_outages.py",
    ),
    without(
        "looks until nobody may start a slot any more",
        _RUNNER,
        "elif late <= longest_lateness(job, slot):",
        "elif late <= within:",
        "tests/engine/test_trust.py",
    ),
    without(
        "the hourly look for what nobody knows of",
        _DEALINGS,
        "await self._recovery.find_unwatched(jobs)",
        "await self._recovery._register(jobs)",
        "tests/engine/test_outages.py",
    ),
)
