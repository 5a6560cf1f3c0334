"""Mutants of who may begin, keep and end a run on PostgreSQL, and of what SQLite keeps of it."""

from tests.mutants.mutant import Mutant, without

_POSTGRES = "anarchon/backends/postgres/migrations"
_BACKENDS = "anarchon/backends"
_TESTS = tuple(
    f"tests/contract/test_{name}.py"
    for name in ("beginnings", "start_deadlines", "newest", "moments")
)


def _on_postgres(name: str, file: str, old: str, new: str) -> Mutant:
    told = f"{name}, on PostgreSQL"
    return without(told, f"{_POSTGRES}/{file}", old, new, *_TESTS, "-k", "postgres-18")


def _on_sqlite(name: str, file: str, old: str, new: str) -> Mutant:
    told = f"{name}, as SQLite keeps it"
    return without(told, f"{_BACKENDS}/{file}", old, new, *_TESTS, "-k", "sqlite")


BEGINNINGS = (
    _on_postgres(
        "the token in begin",
        "0003_calls.sql",
        "and r.token = p_tokens[i] and r.state in ('claimed', 'queued', 'running')",
        "and r.state in ('claimed', 'queued', 'running')",
    ),
    _on_postgres(
        "no beginning of a run that ended",
        "0003_calls.sql",
        "and r.token = p_tokens[i] and r.state in ('claimed', 'queued', 'running')",
        "and r.token = p_tokens[i]",
    ),
    _on_postgres(
        "no beginning of an untracked run",
        "0003_calls.sql",
        "            and r.start_within is not null\n            and (\n",
        "            and (\n",
    ),
    _on_postgres(
        "the same answer for the same delivery",
        "0003_calls.sql",
        "                r.nonce = p_nonces[i]\n                or (",
        "                (",
    ),
    _on_postgres(
        "the start deadline",
        "0003_calls.sql",
        "(r.deadline is null or r.deadline > clock)",
        "true",
    ),
    _on_postgres(
        "the very end of the time to begin",
        "0003_calls.sql",
        "r.deadline > clock)",
        "r.deadline >= clock)",
    ),
    _on_postgres(
        "one beginning a retry",
        "0003_calls.sql",
        "(p_retries[i] = r.retry and r.state in ('claimed', 'queued'))",
        "p_retries[i] = r.retry",
    ),
    _on_postgres(
        "no beginning of an older retry",
        "0003_calls.sql",
        "(p_retries[i] = r.retry and r.state in ('claimed', 'queued'))",
        "r.state in ('claimed', 'queued')",
    ),
    _on_postgres(
        "the lease of who began",
        "0003_calls.sql",
        "set state = 'running', expires = clock + micros(r.lease),",
        "set state = 'running',",
    ),
    _on_postgres(
        "the first time it was begun",
        "0003_calls.sql",
        "coalesce(h.begun, clock)",
        "clock + interval '1 ms'",
    ),
    _on_postgres(
        "the holder in renew",
        "0003_calls.sql",
        "and r.holder is not distinct from p_holders[i] and r.expires",
        "and r.expires",
    ),
    _on_postgres(
        "no renewal of what waits",
        "0003_calls.sql",
        "and r.expires > clock\n                and r.state in ('claimed', 'running');",
        "and r.expires > clock;",
    ),
    _on_postgres(
        "the delivery in finish",
        "0003_calls.sql",
        "and r.nonce is not distinct from p_nonces[i]\n            and r.state in",
        "and r.state in",
    ),
    _on_postgres(
        "the delivery in a second finish",
        "0003_calls.sql",
        "and r.nonce is not distinct from p_nonces[i] and r.state <> 'queued'",
        "and r.state <> 'queued'",
    ),
    _on_postgres(
        "no end of what waits",
        "0003_calls.sql",
        "from p_nonces[i] and r.state <> 'queued'",
        "from p_nonces[i]",
    ),
    _on_postgres(
        "no release of what a worker has",
        "0003_calls.sql",
        "and r.nonce is null and r.state in ('claimed', 'running')",
        "and r.state in ('claimed', 'running')",
    ),
    _on_postgres(
        "no claim of a publisher to what a worker has",
        "0002_claim.sql",
        "and r.token = a.token and r.nonce is null\n",
        "and r.token = a.token\n",
    ),
    _on_postgres(
        "the token in the mark of who publishes",
        "0003_calls.sql",
        "and r.token = p_token and r.state = 'claimed'",
        "and r.state = 'claimed'",
    ),
    _on_postgres(
        "the token in the mark of a retry",
        "0003_calls.sql",
        "and r.token = p_token and r.state = 'running'",
        "and r.state = 'running'",
    ),
    _on_postgres(
        "a mark by who publishes only while it is to be published",
        "0003_calls.sql",
        "and r.state = 'claimed' and r.start_within is not null",
        "and r.start_within is not null",
    ),
    _on_postgres(
        "no mark of an untracked run",
        "0003_calls.sql",
        "and r.state = 'claimed' and r.start_within is not null",
        "and r.state = 'claimed'",
    ),
    _on_postgres(
        "no mark of a run that ended",
        "0003_calls.sql",
        "and r.state = 'running' and r.nonce = p_nonce",
        "and r.nonce = p_nonce",
    ),
    _on_postgres(
        "the delivery in the mark of a retry",
        "0003_calls.sql",
        "and r.state = 'running' and r.nonce = p_nonce",
        "and r.state = 'running'",
    ),
    _on_postgres(
        "a mark for a retry that has not begun",
        "0003_calls.sql",
        "\n            and r.retry < p_retry",
        "",
    ),
    _on_postgres(
        "a queued run that is busy",
        "0003_calls.sql",
        "set state = 'queued', expires = r.deadline",
        "set state = 'queued', expires = null",
    ),
    _on_postgres(
        "the countdown in the deadline of a retry",
        "0003_calls.sql",
        "p_time + micros(p_delay) + micros",
        "p_time + micros",
    ),
    _on_postgres(
        "whole milliseconds of a countdown",
        "0003_calls.sql",
        "date_trunc(\n                'milliseconds', p_time",
        "date_trunc(\n                'microseconds', p_time",
    ),
    _on_postgres(
        "the end of a run that nobody began in time",
        "0002_claim.sql",
        "when r.deadline <= p_time and (r",
        "when false and (r",
    ),
    _on_postgres(
        "a live lease that outlives the start deadline",
        "0002_claim.sql",
        "when r.deadline <= p_time and (r.expires is null or r.expires <= p_time) then",
        "when r.deadline <= p_time then",
    ),
    _on_postgres(
        "the fate of an attempt that nobody began in time",
        "0002_claim.sql",
        "case when r.deadline <= p_time then 'expired' else 'lost' end, p_time",
        "'lost', p_time",
    ),
    _on_postgres(
        "no claim of what may not be begun",
        "0002_claim.sql",
        " or a.slot + micros(a.start_within) <= p_time\n",
        "\n",
    ),
    _on_postgres(
        "time to begin anew after a beginning",
        "0002_claim.sql",
        "coalesce(r.deadline, p_time + micros(r.start_within))",
        "r.deadline",
    ),
    _on_postgres(
        "no more time after an attempt nobody began",
        "0002_claim.sql",
        "coalesce(r.deadline, p_time + micros(r.start_within))",
        "p_time + micros(r.start_within)",
    ),
    _on_postgres(
        "an attempt that begins with the first message",
        "0002_claim.sql",
        "retry = 0, nonce = null,",
        "nonce = null,",
    ),
    _on_postgres(
        "the newest slot in a claim",
        "0002_claim.sql",
        "when a.after < r.newest or a.slot <= a.after then 'done'",
        "when a.slot <= a.after then 'done'",
    ),
    _on_postgres(
        "a slot after the newest one",
        "0002_claim.sql",
        "when a.after < r.newest or a.slot <= a.after then 'done'",
        "when a.after < r.newest then 'done'",
    ),
    _on_postgres(
        "a skipped slot as the newest one",
        "0002_claim.sql",
        "        update job j set newest = greatest(j.newest, a.slot)\n"
        "        where j.namespace = p_namespace and j.job = a.job;\n",
        "",
    ),
    _on_postgres(
        "a newest slot that is never lowered",
        "0002_claim.sql",
        "set fence = v.fence, newest = greatest(j.newest, a.slot)",
        "set fence = v.fence, newest = a.slot",
    ),
    _on_postgres(
        "a claim by what the store has lost",
        "0002_claim.sql",
        "case when v_in_time then least(v_floor, a.after) else v_floor end",
        "v_floor",
    ),
    _on_sqlite(
        "a queued run that is unfinished",
        "sqlite/records.py",
        "_IS_UNFINISHED = \"state in ('claimed', 'queued', 'running')\"",
        "_IS_UNFINISHED = \"state in ('claimed', 'queued', 'running') and state <> 'queued'\"",
    ),
    _on_sqlite(
        "the newest slot",
        "sqlrecords/rows.py",
        "return to_millis(record.floor), to_millis(record.newest), record.fence",
        "return to_millis(record.floor), to_millis(record.floor), record.fence",
    ),
    *(
        _on_sqlite(name, "sqlrecords/rows.py", f"        {kept},\n", f"        {lost},\n")
        for name, kept, lost in (
            ("the start deadline", "_millis(run.deadline)", "None"),
            ("the number of a retry", "run.retry", "0"),
            ("the delivery that began", "run.nonce", "None"),
            ("the worker that began", "run.holder", "None"),
            ("the message that was begun", "run.message", "None"),
            ("the time it was begun", "_millis(run.begun)", "None"),
            (
                "how long work may be begun",
                "None if within is None else within // MILLISECOND",
                "None",
            ),
        )
    ),
)
