"""Mutants of the adapters that say the rules in a language of their own, or lock in one."""

from tests.mutants.mutant import Edit, Mutant, without

_REDIS = "anarchon/backends/redis"
_POSTGRES = "anarchon/backends/postgres/migrations"
_ON_POSTGRES = (
    *("tests/unit/postgres/test_concurrency.py", "tests/contract/test_races.py"),
    *("tests/contract", "-k", "postgres-18 or unit"),
)
#: Each finds much within a minute.
_SHORT = tuple(
    f"tests/contract/test_{name}.py"
    for name in ("moments", "overlap", "claims", "endings", "pruning", "takeovers")
)
_ON_REDIS = (*_SHORT, "-k", "redis-8.0")
_ON_SQLITE = ("tests/contract/test_races.py", "tests/unit/sqlite", "-k", "sqlite")

REDIS = (
    without(
        "the token in finish, on Redis",
        f"{_REDIS}/finish.lua",
        "if not run or not is_held_by(run, token, optional(ARGV[4])) then",
        "if not run then",
        *_ON_REDIS,
    ),
    without(
        "the token in renew, on Redis",
        f"{_REDIS}/renew.lua",
        "if not run or run[TOKEN] ~= token or last_of",
        "if not run or last_of",
        *_ON_REDIS,
    ),
    without(
        "no renewal of a lease that lapsed, on Redis",
        f"{_REDIS}/renew.lua",
        " or not is_busy(slot, time) then",
        " then",
        *_ON_REDIS,
    ),
    without(
        "the token in release, on Redis",
        f"{_REDIS}/release.lua",
        "has_ended(run) or not is_held_by(run, token, false)",
        "has_ended(run)",
        *_ON_REDIS,
    ),
    without(
        "the floor in a claim, on Redis",
        f"{_REDIS}/claim.lua",
        "if due <= floor then",
        "if false then",
        *_ON_REDIS,
    ),
    without(
        "the floor raised with what is pruned, on Redis",
        f"{_REDIS}/prune.lua",
        "redis.call('HSET', RECORD, 'floor', newest)",
        "",
        *_ON_REDIS,
    ),
    without(
        "the guard against overlap in a new claim, on Redis",
        f"{_REDIS}/claim.lua",
        "local blocker = busy_other()",
        "local blocker = nil",
        *_ON_REDIS,
    ),
    without(
        "the guard against overlap in a takeover, on Redis",
        f"{_REDIS}/claim.lua",
        "local blocker = run[OVERLAP] == 'skip' and busy_other()",
        "local blocker = nil",
        *_ON_REDIS,
    ),
    without(
        "the bound of lateness, on Redis",
        f"{_REDIS}/claim.lua",
        "elseif time - due > tonumber(ARGV[9]) or (",
        "elseif (",
        *_ON_REDIS,
    ),
    without(
        "takeover of a lapsed lease only, on Redis",
        f"{_REDIS}/claim.lua",
        "elseif is_decided and is_busy(slot, time) then",
        "elseif is_decided and is_busy(slot, time) and mode ~= 'takeover' then",
        *_ON_REDIS,
    ),
    without(
        "tokens that are spent, on Redis",
        f"{_REDIS}/prelude.lua",
        "if spent == token then",
        "if spent == nil then",
        *_ON_REDIS,
    ),
    without(
        "a fence larger than the last one, on Redis",
        f"{_REDIS}/claim.lua",
        "math.max((tonumber(redis.call('HGET', RECORD, 'fence')) or 0) + 1, time)",
        "time",
        *_ON_REDIS,
    ),
    without(
        "a lease that is set anew, on Redis",
        f"{_REDIS}/prelude.lua",
        "redis.call('ZADD', OPEN, 'CH', time + run[LEASE], slot)",
        "redis.call('ZADD', OPEN, 'CH', 'NX', time + run[LEASE], slot)",
        *(*_SHORT, "-k", "redis-8.0"),
    ),
    without(
        "the very end of a lease, on Redis",
        f"{_REDIS}/prelude.lua",
        "redis.call('ZSCORE', OPEN, slot) or 0) > time",
        "redis.call('ZSCORE', OPEN, slot) or 0) >= time",
        *(*_SHORT, "-k", "redis-8.0"),
    ),
    without(
        "the end of what a new run replaces, on Redis",
        f"{_REDIS}/claim.lua",
        "    for _, other in ipairs(redis.call('ZRANGE', OPEN, 0, -1)) do",
        "    for _, other in ipairs({}) do",
        *(*_SHORT, "-k", "redis-8.0"),
    ),
    without(
        "a floor of now for a job met before its slot, on Redis",
        f"{_REDIS}/claim.lua",
        "mode == 'scheduled' and due <= time and time - due",
        "mode == 'scheduled' and time - due",
        *(*_SHORT, "-k", "redis-8.0"),
    ),
    without(
        "a floor that is never lowered, on Redis",
        f"{_REDIS}/prune.lua",
        "newest > tonumber(redis.call('HGET', RECORD, 'floor') or 0)",
        "true",
        *(*_SHORT, "-k", "redis-8.0"),
    ),
    without(
        "what is spared by a part of a millisecond, on Redis",
        f"{_REDIS}/store.py",
        "-(-asked.spare // MILLISECOND)",
        "asked.spare // MILLISECOND",
        *(*_SHORT, "-k", "redis-8.0"),
    ),
    without(
        "a second try for a run of one attempt that had not begun, on Redis",
        f"{_REDIS}/release.lua",
        "if ARGV[3] == '1' and run",
        "if run",
        *(*_SHORT, "-k", "redis-8.0"),
    ),
)

POSTGRES = (
    without(
        "the lock of a job's record, on PostgreSQL",
        f"{_POSTGRES}/0001_records.sql",
        "and j.job = v_job for update;",
        "and j.job = v_job;",
        *_ON_POSTGRES,
    ),
    without(
        "the lock before a claim is judged, on PostgreSQL",
        f"{_POSTGRES}/0002_claim.sql",
        "perform lock_jobs(p_namespace, array(select p_jobs[u.i] from unnest(v_may_win)"
        " as u (i)));",
        "",
        *_ON_POSTGRES,
    ),
    without(
        "a second look under the lock, on PostgreSQL",
        f"{_POSTGRES}/0002_claim.sql",
        "if v.verdict not in ('done', 'running', 'overlap', 'none', 'late') then\n"
        "            perform carry_out",
        "if true then\n            perform carry_out",
        *_ON_POSTGRES,
    ),
    without(
        "the lock while pruning, on PostgreSQL",
        f"{_POSTGRES}/0003_calls.sql",
        "perform lock_jobs(p_namespace, p_jobs || v_old);",
        "",
        *_ON_POSTGRES,
    ),
    without(
        "locks in the order of the names, on PostgreSQL",
        f"{_POSTGRES}/0001_records.sql",
        'select distinct u.name collate "C" from unnest(p_jobs) as u (name) order by 1 loop',
        "select u.name from unnest(p_jobs) as u (name) loop",
        *_ON_POSTGRES,
    ),
    without(
        "a clock that goes on in a transaction, on PostgreSQL",
        f"{_POSTGRES}/0001_records.sql",
        "date_trunc('milliseconds', clock_timestamp())",
        "date_trunc('milliseconds', now())",
        *_ON_POSTGRES,
    ),
    without(
        "the time read under the lock, on PostgreSQL",
        f"{_POSTGRES}/0002_claim.sql",
        "    v_time := store_time();\n    foreach",
        "    foreach",
        *_ON_POSTGRES,
    ),
    without(
        "the token in renew, on PostgreSQL",
        f"{_POSTGRES}/0003_calls.sql",
        "and r.token = p_tokens[i]\n                and r.holder",
        "and r.holder",
        *_ON_POSTGRES,
    ),
    without(
        "the guard against overlap in a takeover, on PostgreSQL",
        f"{_POSTGRES}/0002_claim.sql",
        "when r.overlap = 'skip' and r.busy is not null then 'overlap'",
        "when false then 'overlap'",
        *_ON_POSTGRES,
    ),
    without(
        "the floor in a claim, on PostgreSQL",
        f"{_POSTGRES}/0002_claim.sql",
        "when a.slot <= r.floor then 'done'",
        "when false then 'done'",
        *_ON_POSTGRES,
    ),
    Mutant(
        "the time under the lock for the floor of a new job, on PostgreSQL",
        (
            Edit(
                f"{_POSTGRES}/0002_claim.sql",
                "    v_made := array(select make_records(p_namespace, v_new));\n",
                "    v_made := array(select make_records(p_namespace, v_new));\n"
                "    foreach i in array v_may_win loop\n"
                "        perform meet(p_namespace, v_time, v_asked[i]);\n"
                "    end loop;\n",
            ),
            Edit(
                f"{_POSTGRES}/0002_claim.sql",
                "if p_jobs[i] = any (v_made) then",
                "if p_jobs[i] is null then",
            ),
        ),
        ("tests/unit/postgres/test_first_calls.py", "-k", "postgres-18"),
    ),
    without(
        "a floor of now for a catch-up of a new job, on PostgreSQL",
        f"{_POSTGRES}/0002_claim.sql",
        "a.mode = 'scheduled' and a.slot <= p_time",
        "a.slot <= p_time",
        *(*_SHORT, "-k", "postgres-18"),
    ),
    without(
        "a floor of now for a job met before its slot, on PostgreSQL",
        f"{_POSTGRES}/0002_claim.sql",
        "a.mode = 'scheduled' and a.slot <= p_time and",
        "a.mode = 'scheduled' and",
        *(*_SHORT, "-k", "postgres-18"),
    ),
    without(
        "a lease that is set anew by a repeated claim, on PostgreSQL",
        f"{_POSTGRES}/0002_claim.sql",
        "    when 'hold' then\n        update run r set expires = v.clock + micros(r.lease)",
        "    when 'hold' then\n        update run r set expires = r.expires",
        *(*_SHORT, "-k", "postgres-18"),
    ),
    without(
        "the end of what a new run replaces, on PostgreSQL",
        f"{_POSTGRES}/0002_claim.sql",
        "if v_others <> '{}' then",
        "if false then",
        *(*_SHORT, "-k", "postgres-18"),
    ),
    without(
        "the lease of a run over the mark of its slot, on PostgreSQL",
        f"{_POSTGRES}/0002_claim.sql",
        "expires = excluded.expires",
        "expires = null",
        *(*_SHORT, "-k", "postgres-18"),
    ),
    without(
        "the terms of a run over the mark of its slot, on PostgreSQL",
        f"{_POSTGRES}/0002_claim.sql",
        "lease = excluded.lease, overlap = excluded.overlap,\n"
        "            max_attempts = excluded.max_attempts",
        "overlap = excluded.overlap,\n            max_attempts = excluded.max_attempts",
        *(*_SHORT, "-k", "postgres-18"),
    ),
    without(
        "a floor that is never lowered, on PostgreSQL",
        f"{_POSTGRES}/0003_calls.sql",
        "and j.job = p_jobs[i] and j.floor < v_newest;",
        "and j.job = p_jobs[i] and v_newest is not null;",
        *(*_SHORT, "-k", "postgres-18"),
    ),
)

SQLITE = (
    without(
        "the lock from the start of a transaction, on SQLite",
        "anarchon/backends/sqlite/database.py",
        "            self._lock(connection)\n            try",
        '            connection.execute("begin")\n            try',
        *_ON_SQLITE,
    ),
    without(
        "attempts that lapsed, as SQLite keeps them",
        "anarchon/backends/sqlrecords/rows.py",
        "        run.lapses,\n",
        "        0,\n",
        *(*_SHORT, "-k", "sqlite"),
    ),
    without(
        "tokens that are spent, as SQLite keeps them",
        "anarchon/backends/sqlrecords/rows.py",
        'spent=() if spent == "[]" else tuple(json.loads(spent))',
        "spent=()",
        *(*_SHORT, "-k", "sqlite"),
    ),
    without(
        "the floor raised with what is pruned, as SQLite keeps it",
        "anarchon/backends/sqlrecords/record_set.py",
        "return record.floor, record.newest, record.fence",
        "return record.newest, record.fence",
        *(*_SHORT, "-k", "sqlite"),
    ),
)
