"""Mutants of how leases are kept: the keeper, trust, and what is asked again."""

from tests.mutants.mutant import Edit, Mutant, without

_KEEPER = "anarchon/keeper.py"
_CALLING = "anarchon/calling.py"
_GATHERING = "anarchon/gathering.py"
_RECORDER = "anarchon/scheduler/lease_recorder.py"
_ACTIONS = "anarchon/scheduler/actions.py"
_OUTBOX = "anarchon/scheduler/outbox.py"
_RUNNER = "anarchon/scheduler/lease_runner.py"
_CLAIM = "answered = await self._asking.claim(claim, deadline=deadline, give_up=give_up)"
_BLOCKED = ("tests/engine/test_real_time.py", "-k", "blocked_loop or blocks_the_loop and memory")
_TRUST = ("tests/unit/test_keeper.py",)
_ASKS = ("tests/unit/test_asking.py", "tests/engine/test_outages.py")
_RUNS = (
    "tests/engine/test_takeover.py",
    "tests/engine/test_outages.py",
    "tests/engine/test_handlers.py",
    "tests/engine/test_stopping.py",
)

KEEPING = (
    Mutant(
        "the end of trust set as a signal",
        (
            Edit(_KEEPER, "self._end_distrusted(now)\n", "pass\n"),
            # or it would look again and again for what it never ends
            Edit(_KEEPER, "return min(due, *trusted) if trusted else due", "return due"),
        ),
        _TRUST,
    ),
    without(
        "the margin of trust",
        _KEEPER,
        "(self.lease - margin(self.lease))",
        "self.lease",
        *_TRUST,
    ),
    without(
        "trust counted from before a renewal",
        _KEEPER,
        "asked_at = self._clock.monotonic()\n            reply = await self._store.renew(renewals)",
        "reply = await self._store.renew(renewals)\n            asked_at = self._clock.monotonic()",
        *_TRUST,
    ),
    without(
        "trust counted from before a claim",
        _CALLING,
        "return reply, before",
        "return reply, after",
        "tests/unit/test_asking.py",
    ),
    without(
        "the keeper told before the claim is sent",
        _RUNNER,
        f"self._keeper.hold(held)\n        try:\n            {_CLAIM}",
        f"try:\n            {_CLAIM}\n            self._keeper.hold(held)",
        *_BLOCKED,
    ),
    without(
        "the keeper's own thread",
        _KEEPER,
        "if self._clock.manual:",
        "if loop:",
        *_BLOCKED,
    ),
    without(
        "the word that an attempt is over",
        _RECORDER,
        "held.over = True",
        "pass",
        *_RUNS,
    ),
    without(
        "a refusal ignored once the attempt is over",
        _KEEPER,
        "elif granted and not one.over and",
        "elif granted and",
        *_TRUST,
    ),
    without(
        "a refusal ignored before the claim was answered",
        _KEEPER,
        "was_granted = [one.granted for one in held]",
        "was_granted = [True for _ in held]",
        *_TRUST,
    ),
    without(
        "a refusal ignored that overtook the claim",
        _KEEPER,
        "elif granted and not one.over and",
        "elif one.granted and not one.over and",
        *_TRUST,
    ),
    without(
        "renewing until the end is stored",
        _RECORDER,
        'held.renew_until = float("inf")',
        "self._keeper.drop(held)",
        *_RUNS,
    ),
    without(
        "renewing beyond the timeout until the end is stored",
        _RECORDER,
        'held.renew_until = float("inf")',
        "pass",
        "tests/engine/test_handlers.py",
    ),
    without(
        "no renewal beyond a timeout",
        _KEEPER,
        "if h.renew_until > now]",
        "]",
        *_TRUST,
    ),
    without(
        "forgetting a token at its end",
        _RECORDER,
        "would keep the run from others\n        self._keeper.drop(held)",
        "would keep the run from others\n        pass",
        *_RUNS,
    ),
    without(
        "forgetting a token that lost",
        _RUNNER,
        "self._keeper.drop(held)\n        self._backlog",
        "pass\n        self._backlog",
        "tests/engine/test_load.py",
    ),
    without(
        "a deadline for renewals",
        _KEEPER,
        "async with self._clock.timeout(deadline):",
        "if deadline:",
        *_TRUST,
    ),
    without(
        "an eye on trust during a renewal",
        _KEEPER,
        "self._renewing = asyncio.create_task(self._renew())\n"
        "                    self._renewing.add_done_callback(lambda _: self._wake.set())",
        "await self._renew()\n                    continue",
        *_TRUST,
    ),
    without(
        "halving of a poisoned renewal",
        _KEEPER,
        "if len(held) == 1:",
        "if held:",
        *_TRUST,
    ),
    without(
        "a renewal in time for a run's shorter lease",
        _KEEPER,
        "held.heartbeat = min(held.heartbeat, lease / 3)",
        "pass",
        *_TRUST,
    ),
    without(
        "the keeper woken by what it is told while it looks",
        _KEEPER,
        'self._wakes_at = float("inf")\n                self._wakes_at',
        "self._wakes_at",
        *_TRUST,
    ),
    without(
        "no word of a start under a lease that is not trusted",
        _RECORDER,
        " and held.is_trusted_at(self._core.clock.monotonic())",
        "",
        *_RUNS,
    ),
    without(
        "trust looked at before a thread's handler",
        _ACTIONS,
        "def _outcome_of_call(core: SchedulerCore, work: Work) -> object:\n"
        "    if not _may_begin(core, work):",
        "def _outcome_of_call(core: SchedulerCore, work: Work) -> object:\n    if work is None:",
        "tests/engine/test_load.py",
        "tests/engine/test_keeper_threads.py",
    ),
    without(
        "trust looked at before a coroutine's first line",
        _ACTIONS,
        "async def _outcome_of_coroutine(core: SchedulerCore, work: Work) -> object:\n"
        "    if not _may_begin(core, work):",
        "async def _outcome_of_coroutine(core: SchedulerCore, work: Work) -> object:\n"
        "    if work is None:",
        "tests/engine/test_trust.py",
    ),
    without(
        "a connection that is given a heartbeat only",
        _KEEPER,
        "limit = min(max(heartbeat.total_seconds(), self._opening), PATIENCE)",
        "limit = PATIENCE",
        "tests/unit/test_keeper_opening.py",
    ),
    without(
        "trust looked at before a send",
        _OUTBOX,
        "def _send_one(letter: Letter) -> object:\n    if not letter.may_go():",
        "def _send_one(letter: Letter) -> object:\n    if letter is None:",
        "tests/engine/test_publishing.py",
    ),
    without(
        "the clock in what is looked at before a send",
        _ACTIONS,
        " or not held.is_trusted_at(core.clock.monotonic()))",
        ")",
        "tests/engine/test_publishing.py",
        "tests/engine/test_stopping.py",
    ),
    without(
        "asking again where the outcome is unknown",
        _GATHERING,
        "except (StoreUnavailable, OutcomeUnknown) as error:\n            return error",
        "except StoreUnavailable as error:\n            return error",
        *_ASKS,
    ),
    without(
        "the same token when a claim is asked again",
        _GATHERING,
        "self._waiting.append(asked)",
        'again = __import__("dataclasses").replace\n'
        '                asked.question = again(asked.question, token=asked.question.token + "+")\n'
        "                self._waiting.append(asked)",
        *_ASKS,
    ),
    without(
        "the same token when a message is sent again",
        _ACTIONS,
        "letter = replace(letter, alone=True)",
        "letter = replace(\n"
        '            letter, alone=True, ctx=replace(letter.ctx, token=letter.ctx.token + "+")\n'
        "        )",
        "tests/engine/test_publishing.py",
    ),
    without(
        "one claim of a job in a call",
        _GATHERING,
        "(self._one_of_a_job and job in jobs)",
        "job is None",
        *_ASKS,
    ),
    without(
        "halving of a poisoned claim",
        _GATHERING,
        "if len(batch) == 1 or isinstance(error, SchemaMismatch):",
        "if batch:",
        *_ASKS,
    ),
    without(
        "the most urgent member's deadline",
        _GATHERING,
        "lambda: self._send(questions), min(asked.deadline for asked in batch)",
        "lambda: self._send(questions), max(asked.deadline for asked in batch)",
        *_ASKS,
    ),
    without(
        "patient claims parted from urgent ones",
        _GATHERING,
        "apart = turn is not None and self._is_urgent(asked) is not turn",
        "apart = False",
        "tests/engine/test_slow_store.py",
        "tests/unit/test_asking.py",
    ),
    without(
        "patient renewals parted from urgent ones",
        _KEEPER,
        "patient = [h for h in held if h.heartbeat > shortest]",
        "patient: list[Held] = []",
        *_TRUST,
    ),
    without(
        "the release of a claim that was not answered",
        _RUNNER,
        "await self._take_back(held, deadline)",
        "pass",
        "tests/engine/test_outages.py",
        "tests/engine/test_stopping.py",
        "tests/engine/test_takeover.py",
    ),
    without(
        "recovery of a claim that was not answered",
        _RUNNER,
        "if answered is None:\n            self._recover(job)",
        "if answered is None:\n            pass",
        "tests/engine/test_outages.py",
        "tests/engine/test_takeover.py",
    ),
)
