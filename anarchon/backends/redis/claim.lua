#!lua
-- Ask for a slot.
--
-- KEYS    the four of the prelude
-- ARGV    slot, token, mode, instance, lease, overlap, max_attempts, begins_as, within
-- Answer  time, outcome [, attempt, fence, lease, holder [, blocker]]
--
-- Whoever loses writes nothing, but for the first who meets an overlap.

local slot, token, mode, instance = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local time = now()

local function answer(outcome, run)
  local last = last_of(run)
  return {time, outcome, last[NUMBER], last[FENCE], run[LEASE], last[INSTANCE]}
end

local function overlaps(blocker)
  local run = find(blocker)
  return {time, 'overlap', 0, 0, false, run and last_of(run)[INSTANCE], blocker}
end

-- The oldest run whose lease lives. It is another one: whoever asks holds none.
local function busy_other()
  local oldest
  for _, other in ipairs(redis.call('ZRANGE', OPEN, '(' .. time, '+inf', 'BYSCORE')) do
    if not oldest or tonumber(other) < tonumber(oldest) then
      oldest = other
    end
  end
  return oldest
end

-- Slots come nearly always in order, so the place is at the end or close to it.
local function put_in_order()
  local place, successor = -1, nil
  local at = redis.call('LINDEX', ORDER, place)
  while at and tonumber(at) > tonumber(slot) do
    place, successor = place - 1, at
    at = redis.call('LINDEX', ORDER, place)
  end
  if successor then
    redis.call('LINSERT', ORDER, 'BEFORE', successor, slot)
  else
    redis.call('RPUSH', ORDER, slot)
  end
end

local function open_attempt(run, number, state, fence, ended)
  table.insert(run[ATTEMPTS], {number, state, instance, fence, time, ended, false})
  keep(slot, run)
  put_in_order()
end

local function grant(run)
  -- the time keeps it growing even after the store lost the record
  local fence = math.max((tonumber(redis.call('HGET', RECORD, 'fence')) or 0) + 1, time)
  local last = last_of(run)
  run[STATE], run[TOKEN] = run[BEGINS_AS], token
  open_attempt(run, last and last[NUMBER] + 1 or 1, run[STATE], fence, false)
  redis.call('ZADD', OPEN, time + run[LEASE], slot)
  redis.call('HSET', RECORD, 'fence', fence)
  return answer('won', run)
end

local function new_run(attempts)
  return {
    'skipped', 0, false, tonumber(ARGV[5]), ARGV[6], tonumber(ARGV[7]), ARGV[8], {}, attempts,
  }
end

local function take_over(run)
  local lapsed = run[TOKEN]
  local lapses = run[LAPSES] + (lapsed and 1 or 0)
  if lapsed and lapses >= run[MAX_ATTEMPTS] then
    end_run(slot, run, 'lost', time)
    return {time, 'done'}
  end
  local blocker = run[OVERLAP] == 'skip' and busy_other()
  if blocker then
    return overlaps(blocker)
  end
  if lapsed then
    close(run, 'lost', time)
  end
  run[LAPSES] = lapses
  return grant(run)
end

local function start(mark)
  local floor = tonumber(redis.call('HGET', RECORD, 'floor'))
  local due = tonumber(slot)
  if not floor then
    local in_time = mode == 'scheduled' and due <= time and time - due <= tonumber(ARGV[9])
    floor = in_time and due - 1 or time
    make_record(floor)
  end
  if due <= floor then
    return {time, 'done'}
  elseif mode == 'takeover' or time < due then
    return {time, 'none'}
  elseif time - due > tonumber(ARGV[9]) then
    return {time, 'late'}
  elseif mark and mode == 'catch-up' then
    return {time, 'done'}
  end
  if ARGV[6] == 'skip' then
    local blocker = busy_other()
    if blocker then
      if not mark then
        open_attempt(new_run({}), 0, 'skipped', 0, time)
      end
      return overlaps(blocker)
    end
    for _, other in ipairs(redis.call('ZRANGE', OPEN, 0, -1)) do
      local run = find(other)
      end_run(other, run, run[TOKEN] and 'lost' or 'interrupted', time)
    end
  end
  return grant(new_run(mark and mark[ATTEMPTS] or {}))
end

local run = find(slot)
if not run or run[STATE] == 'skipped' then
  return start(run)
elseif has_ended(run) then
  return {time, 'done'}
elseif expires(slot) > time then
  if run[TOKEN] ~= token then
    return answer('running', run)
  end
  redis.call('ZADD', OPEN, time + run[LEASE], slot)
  return answer('won', run)
elseif mode ~= 'takeover' or is_spent(run, token) then
  -- a repeat of a request whose attempt was given back since must not start another
  return answer('running', run)
end
return take_over(run)
