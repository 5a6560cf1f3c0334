"""Mutants of what makes a Dramatiq project's workers a scheduler, and its runs followed."""

from tests.mutants.mutant import without

_PACKAGE = "integrations/anarchon_dramatiq"
_START, _END = f"{_PACKAGE}/tracking_start.py", f"{_PACKAGE}/tracking_end.py"
_AGES, _PUBLISHER = f"{_PACKAGE}/ages.py", f"{_PACKAGE}/publisher.py"
_MIDDLEWARE, _DECLARED = f"{_PACKAGE}/middleware.py", f"{_PACKAGE}/declared.py"
_RABBITMQ, _REDIS = f"{_PACKAGE}/rabbitmq.py", f"{_PACKAGE}/redis.py"
_TRACKED = ("tests/dramatiq/test_tracked.py",)
_AWAY = ("tests/dramatiq/test_store_away.py",)
_DECLARING = ("tests/dramatiq/test_declaring.py",)
_PUBLISHED = ("tests/dramatiq/test_publisher.py", "-k", "not RealBroker")
_ENGINE = ("tests/dramatiq/test_engine.py",)
_ON_BROKERS = ("tests/dramatiq/test_publisher.py", "-k", "RealBroker")

DRAMATIQ = (
    without(
        "the start deadline of Dramatiq's, off what starts unasked",
        _START,
        "if begun is None or not is_too_old(broker, message, by_ours=True):",
        "if begun is None:",
        *_AWAY,
    ),
    without(
        "the start deadline of Dramatiq's, where the store is away",
        _START,
        "if begun is None or not is_too_old(broker, message, by_ours=True):",
        "if True:",
        *_AWAY,
    ),
    without(
        "a message of Dramatiq's left unbegun that AgeLimit will drop",
        _START,
        "if not retry and is_too_old(broker, message, by_ours=False):",
        "if False:",
        *_TRACKED,
    ),
    without(
        "the end of a retry of Dramatiq's that AgeLimit will drop",
        _START,
        "if not retry and is_too_old(broker, message, by_ours=False):",
        "if is_too_old(broker, message, by_ours=False):",
        *_TRACKED,
    ),
    without(
        "the age limit that the user gave a retry of Dramatiq's",
        _AGES,
        "        message.options[_OPTION] = own\n",
        "        message.options.pop(_OPTION)\n",
        *_TRACKED,
    ),
    without(
        "the stored result of what a skipped message of Dramatiq's was sent for",
        _START,
        'message.options["store_results"] = False',
        "pass",
        *_TRACKED,
    ),
    without(
        "a lease of Dramatiq's kept from before it begins",
        _START,
        "    tracking.keep(delivery)\n",
        "    pass\n",
        *_TRACKED,
    ),
    without(
        "a run of Dramatiq's forgotten before the next message",
        _START,
        "    note(message, None)\n    run =",
        "    run =",
        *_TRACKED,
    ),
    without(
        "the retry that a message of Dramatiq's was sent for",
        _END,
        "started.retry = delay or 0",
        "pass",
        *_TRACKED,
    ),
    without(
        "a message of Dramatiq's told apart from its retry",
        _END,
        "if message.message_id == delivery.message and ",
        "if ",
        *_TRACKED,
    ),
    without(
        "an end of Dramatiq's told once more after an interruption",
        _END,
        "        _tell(tracking, broker, message, started, result, error)\n    finally:",
        "        raise\n    finally:",
        *_TRACKED,
    ),
    without(
        "a run of Dramatiq's left to its lease by a shutdown",
        _END,
        "elif isinstance(error, Shutdown):",
        "elif False:",
        *_TRACKED,
    ),
    without(
        "the end of what another middleware of Dramatiq's skips",
        _END,
        "wait_for(_finish(tracking, started, RunState.FAILED, detail), started.delivery, log)",
        "pass",
        *_TRACKED,
    ),
    without(
        "a lease of Dramatiq's given up at the end",
        _END,
        "        _tell(tracking, broker, message, started, result, error)\n    finally:\n"
        "        tracking.leave(started.delivery)",
        "        _tell(tracking, broker, message, started, result, error)\n    finally:\n"
        "        pass",
        *_TRACKED,
    ),
    without(
        "the first place among Dramatiq's middleware",
        _MIDDLEWARE,
        "if broker.middleware[0] is not self:",
        "if False:",
        *_DECLARING,
    ),
    without(
        "one middleware of ours on a broker of Dramatiq's",
        _MIDDLEWARE,
        "isinstance(one, AnarchonMiddleware)]) > 1:",
        "isinstance(one, AnarchonMiddleware)]) > 2:",
        *_DECLARING,
    ),
    without(
        "a message of Dramatiq's encoded as it is declared",
        _DECLARED,
        "            sample_of(actor, periodic)\n",
        "            pass\n",
        *_DECLARING,
    ),
    without(
        "the age limit of a message of Dramatiq's as its start deadline",
        _AGES,
        "    if limit >= usual / MILLISECOND:\n",
        "    if True:\n",
        *_DECLARING,
    ),
    without(
        "the time that a takeover of Dramatiq's has anew",
        _PUBLISHER,
        " and (ctx.tracking is None or ctx.attempt == 1)",
        "",
        *_PUBLISHED,
    ),
    without(
        "no more than one engine on a machine of Dramatiq's",
        f"{_PACKAGE}/host_lock.py",
        "fcntl.lockf(file, fcntl.LOCK_EX",
        "fcntl.flock(file, fcntl.LOCK_EX",
        *_ENGINE,
    ),
    without(
        "the lock of an engine of Dramatiq's given back",
        f"{_PACKAGE}/engine.py",
        "            lock.release()",
        "            pass",
        *_ENGINE,
    ),
    without(
        "an engine of Dramatiq's that steps in for another",
        f"{_PACKAGE}/engine.py",
        "if not lock.is_silent():",
        "if True:",
        *_ENGINE,
    ),
    without(
        "an engine of Dramatiq's that shows it lives",
        f"{_PACKAGE}/engine.py",
        "            lock.touch()\n",
        "            pass\n",
        *_ENGINE,
    ),
    without(
        "a declaration of Dramatiq's that knows a store without leases",
        _DECLARED,
        "            claims_only=self._claims_only,\n",
        "",
        *_DECLARING,
    ),
    without(
        "confirmations of RabbitMQ's on Dramatiq's way",
        _RABBITMQ,
        "twin.confirm_delivery = True",
        "twin.confirm_delivery = False",
        *_ON_BROKERS,
    ),
    without(
        "a look whether RabbitMQ has said goodbye on Dramatiq's way",
        _RABBITMQ,
        "if now - self._used > _IDLE or not _is_alive(twin):",
        "if now - self._used > _IDLE:",
        *_ON_BROKERS,
    ),
    without(
        "the time limit of Dramatiq's way to Redis",
        _REDIS,
        "name: min(kept.get(name) or PATIENCE, PATIENCE)",
        "name: 60.0",
        *_ON_BROKERS,
    ),
)
