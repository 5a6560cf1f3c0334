-- Put in front of every script, after its first line, without the functions that it does not
-- call: a blank line parts one from the next. All scripts take the same four keys, which lie
-- under one hash tag and none of which ever expires:
--
--   RECORD  hash   floor, newest, fence, and "seen:FINGERPRINT" = "FIRST LAST" for each edition
--   RUNS    hash   slot -> the run, packed as below
--   OPEN    zset   slots of the runs that have not ended, scored by until when they are busy:
--                  when the lease lapses, or what is queued may be begun no more; 0 where
--                  neither is so. A heartbeat changes this and nothing else
--   ORDER   list   the slot of each attempt, oldest slot first: the order of the history
--
-- Times and durations are whole milliseconds, and so is everything answered as a time.
-- What cannot be known or is not there is false, which a packed array can hold.

local RECORD, RUNS, OPEN, ORDER = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

-- A run. TOKEN is false once it was released or ended by others; SPENT are the tokens that
-- were released, and "lapsed:TOKEN" for those that lapsed and were taken over from. The last
-- four are of tracked runs.
local STATE, LAPSES, TOKEN, LEASE, OVERLAP, MAX_ATTEMPTS, BEGINS_AS, SPENT, ATTEMPTS,
  START_WITHIN, DEADLINE, RETRY, NONCE = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13

-- An attempt; the last one of a run says who holds it and under which fence. WORKER is who
-- renews its lease, once somebody has begun it.
local NUMBER, OUTCOME, INSTANCE, FENCE, STARTED, ENDED, DETAIL, WORKER, MESSAGE, BEGUN =
  1, 2, 3, 4, 5, 6, 7, 8, 9, 10

local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- An argument that need not be there: '' or '=TEXT'.
local function optional(argument)
  return argument ~= '' and string.sub(argument, 2)
end

local function find(slot)
  local packed = redis.call('HGET', RUNS, slot)
  return packed and cmsgpack.unpack(packed)
end

local function keep(slot, run)
  redis.call('HSET', RUNS, slot, cmsgpack.pack(run))
end

local function has_ended(run)
  local state = run[STATE]
  return state ~= 'running' and state ~= 'claimed' and state ~= 'queued'
end

local function last_of(run)
  return run[ATTEMPTS][#run[ATTEMPTS]]
end

local function is_busy(slot, time)
  return tonumber(redis.call('ZSCORE', OPEN, slot) or 0) > time
end

-- Of a run that is not busy: nobody may begin it any more.
local function is_overdue(run, time)
  return run[DEADLINE] and run[DEADLINE] <= time
end

-- Whether this attempt is theirs to end. Nobody ends what waits in a broker.
local function is_held_by(run, token, nonce)
  return run[STATE] ~= 'queued' and run[TOKEN] == token and run[NONCE] == nonce
end

local function set_lease_anew(slot, run, time)
  local changed = redis.call('ZADD', OPEN, 'CH', time + run[LEASE], slot)
  if changed == 0 then
    -- the very same moment: a server waits for its replicas by what a connection has written
    keep(slot, run)
  end
end

local function is_spent(run, token)
  for _, spent in ipairs(run[SPENT]) do
    if spent == token then
      return true
    end
  end
  return false
end

local function close(run, state, time, detail)
  local last = last_of(run)
  last[OUTCOME], last[ENDED], last[DETAIL] = state, time, detail or false
end

-- End a run that its own token does not end. The attempt of a released run was closed when
-- it was released.
local function end_run(slot, run, state, time)
  if run[TOKEN] then
    close(run, state, time)
  end
  run[STATE], run[TOKEN] = state, false
  keep(slot, run)
  redis.call('ZREM', OPEN, slot)
end

local function make_record(floor, newest)
  redis.call('HSET', RECORD, 'floor', floor, 'newest', newest, 'fence', 0)
end
