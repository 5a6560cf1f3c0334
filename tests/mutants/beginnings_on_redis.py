"""Mutants of who may begin, keep and end a run on Redis."""

from tests.mutants.mutant import Mutant, without

_REDIS = "anarchon/backends/redis"
_TESTS = tuple(
    f"tests/contract/test_{name}.py"
    for name in ("beginnings", "start_deadlines", "newest", "moments")
)


def _on_redis(name: str, file: str, old: str, new: str) -> Mutant:
    return without(f"{name}, on Redis", f"{_REDIS}/{file}", old, new, *_TESTS, "-k", "redis-8.0")


BEGINNINGS_ON_REDIS = (
    _on_redis(
        "the token in begin",
        "begin.lua",
        "if run[TOKEN] ~= token or has_ended(run)",
        "if has_ended(run)",
    ),
    _on_redis(
        "no beginning of a run that ended",
        "begin.lua",
        "if run[TOKEN] ~= token or has_ended(run)",
        "if run[TOKEN] ~= token",
    ),
    _on_redis(
        "no beginning of an untracked run", "begin.lua", " or not run[START_WITHIN] then", " then"
    ),
    _on_redis(
        "the same answer for the same delivery",
        "begin.lua",
        "elseif run[NONCE] == nonce then",
        "elseif false then",
    ),
    _on_redis(
        "the start deadline",
        "begin.lua",
        "elseif run[DEADLINE] and run[DEADLINE] <= time then",
        "elseif false then",
    ),
    _on_redis(
        "the very end of the time to begin",
        "begin.lua",
        "run[DEADLINE] <= time",
        "run[DEADLINE] < time",
    ),
    _on_redis(
        "one beginning a retry",
        "begin.lua",
        "(retry == run[RETRY] and run[STATE] ~= 'running')",
        "retry == run[RETRY]",
    ),
    _on_redis(
        "no beginning of an older retry",
        "begin.lua",
        "retry > run[RETRY] or (retry == run[RETRY] and run[STATE] ~= 'running')",
        "retry > run[RETRY] or run[STATE] ~= 'running'",
    ),
    _on_redis(
        "the lease of who began",
        "begin.lua",
        "redis.call('ZADD', OPEN, time + run[LEASE], slot)",
        "",
    ),
    _on_redis(
        "the first time it was begun",
        "begin.lua",
        "last[BEGUN] = last[BEGUN] or time",
        "last[BEGUN] = time + 1",
    ),
    _on_redis(
        "the holder in renew", "renew.lua", " or last_of(run)[WORKER] ~= optional(ARGV[3])", ""
    ),
    _on_redis("no renewal of what waits", "renew.lua", "or run[STATE] == 'queued' or", "or"),
    _on_redis(
        "the delivery in finish",
        "finish.lua",
        "not is_held_by(run, token, optional(ARGV[4]))",
        "run[TOKEN] ~= token",
    ),
    _on_redis(
        "no end of what waits", "prelude.lua", "return run[STATE] ~= 'queued' and run", "return run"
    ),
    _on_redis(
        "no release of what a worker has",
        "release.lua",
        "not is_held_by(run, token, false)",
        "run[TOKEN] ~= token",
    ),
    _on_redis(
        "no claim of a publisher to what a worker has",
        "claim.lua",
        "if not is_held_by(run, token, false) then",
        "if run[TOKEN] ~= token then",
    ),
    _on_redis("the token in a mark", "mark.lua", " or run[TOKEN] ~= token then", " then"),
    _on_redis(
        "no mark of a run that ended", "mark.lua", "has_ended(run) or run[TOKEN]", "run[TOKEN]"
    ),
    _on_redis(
        "a mark by who publishes only while it is to be published",
        "mark.lua",
        "if run[STATE] ~= 'claimed' or not run[START_WITHIN] then",
        "if not run[START_WITHIN] then",
    ),
    _on_redis("the delivery in the mark of a retry", "mark.lua", "run[NONCE] ~= nonce or ", ""),
    _on_redis(
        "a mark for a retry that has not begun", "mark.lua", " or retry <= run[RETRY] then", " then"
    ),
    _on_redis(
        "a queued run that is busy",
        "mark.lua",
        "redis.call('ZADD', OPEN, run[DEADLINE], slot)",
        "redis.call('ZADD', OPEN, 0, slot)",
    ),
    _on_redis(
        "the countdown in the deadline of a retry", "mark.lua", "time + tonumber(ARGV[5])", "time"
    ),
    _on_redis(
        "the end of a run that nobody began in time",
        "claim.lua",
        "elseif is_overdue(run, time) then",
        "elseif false then",
    ),
    _on_redis(
        "a live lease that outlives the start deadline",
        "claim.lua",
        "elseif is_decided and is_busy(slot, time) then",
        "elseif is_decided and is_busy(slot, time) and not is_overdue(run, time) then",
    ),
    _on_redis(
        "the fate of an overdue run that a newer one replaces",
        "claim.lua",
        "is_overdue(run, time) and 'expired' or fate",
        "fate",
    ),
    _on_redis(
        "the fate of an overdue run nobody asked for",
        "forget.lua",
        "is_overdue(run, time) and 'expired' or 'lost'",
        "'lost'",
    ),
    _on_redis(
        "no claim of what may not be begun",
        "claim.lua",
        " or (deadline and deadline <= time) then",
        " then",
    ),
    _on_redis(
        "time to begin anew after a beginning",
        "claim.lua",
        "(run[DEADLINE] or time + run[START_WITHIN])",
        "run[DEADLINE]",
    ),
    _on_redis(
        "no more time after an attempt nobody began",
        "claim.lua",
        "(run[DEADLINE] or time + run[START_WITHIN])",
        "time + run[START_WITHIN]",
    ),
    _on_redis(
        "an attempt that begins with the first message",
        "claim.lua",
        "run[DEADLINE], run[RETRY], run[NONCE] = deadline, 0, false",
        "run[DEADLINE], run[NONCE] = deadline, false",
    ),
    _on_redis(
        "the newest slot in a claim",
        "claim.lua",
        "elseif after and (after <",
        "elseif after and (0 >",
    ),
    _on_redis("a slot after the newest one", "claim.lua", " or due <= after) then", ") then"),
    _on_redis(
        "a skipped slot as the newest one",
        "claim.lua",
        "'skipped', 0, time)\n        if is_newest() then",
        "'skipped', 0, time)\n        if false then",
    ),
    _on_redis(
        "a newest slot that is never lowered",
        "claim.lua",
        "return due > tonumber(redis.call('HGET', RECORD, 'newest'))",
        "return true",
    ),
    _on_redis(
        "a claim by what the store has lost",
        "claim.lua",
        "in_time and after and math.min(floor, after) or floor",
        "floor",
    ),
)
