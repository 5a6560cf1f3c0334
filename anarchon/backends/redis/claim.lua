#!lua
-- Ask for a slot.
--
-- KEYS    the four of the prelude
-- ARGV    slot, token, mode, instance, lease, overlap, max_attempts, begins_as, within,
--         start_within or '', after or ''
-- Answer  time, outcome [, attempt, fence, lease, holder, blocker,
--         1 or 0: whether it waits, start deadline or false]
--
-- Whoever loses writes nothing, but for the first who meets an overlap.

local slot, token, mode, instance = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local start_within, after = tonumber(ARGV[10]), tonumber(ARGV[11])
local due = tonumber(slot)
local time = now()

local function answer(outcome, run)
  local last = last_of(run)
  local waits = outcome == 'running' and run[STATE] == 'queued' and 1 or 0
  local start_by = outcome == 'won' and run[DEADLINE]
  return {
    time, outcome, last[NUMBER], last[FENCE], run[LEASE], last[INSTANCE], false, waits, start_by,
  }
end

-- Most who ask lose, and need none of the functions below.
local run = find(slot)
local is_decided = run and run[STATE] ~= 'skipped'
if is_decided and has_ended(run) then
  return {time, 'done'}
elseif is_decided and is_busy(slot, time) then
  -- its publisher's again only as long as no worker has it
  if not is_held_by(run, token, false) then
    return answer('running', run)
  end
  set_lease_anew(slot, run, time)
  return answer('won', run)
end

local function overlaps(blocker)
  local run = find(blocker)
  return {time, 'overlap', 0, 0, false, run and last_of(run)[INSTANCE], blocker, 0, false}
end

-- The oldest run that is busy. It is another one: the run asked for is not, or is not there.
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
  while at and tonumber(at) > due do
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
  local attempt = {number, state, instance, fence, time, ended, false, false, false, false}
  table.insert(run[ATTEMPTS], attempt)
  keep(slot, run)
  put_in_order()
end

-- Whether no newer slot was decided, to run or to be skipped, than the one that now is.
local function is_newest()
  return due > tonumber(redis.call('HGET', RECORD, 'newest'))
end

local function grant(run, deadline, as_newest)
  -- the time keeps it growing even after the store lost the record
  local fence = math.max((tonumber(redis.call('HGET', RECORD, 'fence')) or 0) + 1, time)
  local last = last_of(run)
  run[STATE], run[TOKEN] = run[BEGINS_AS], token
  run[DEADLINE], run[RETRY], run[NONCE] = deadline, 0, false
  open_attempt(run, last and last[NUMBER] + 1 or 1, run[STATE], fence, false)
  redis.call('ZADD', OPEN, time + run[LEASE], slot)
  if as_newest then
    redis.call('HSET', RECORD, 'fence', fence, 'newest', slot)
  else
    redis.call('HSET', RECORD, 'fence', fence)
  end
  return answer('won', run)
end

local function new_run(attempts)
  return {
    'skipped', 0, false, tonumber(ARGV[5]), ARGV[6], tonumber(ARGV[7]), ARGV[8], {}, attempts,
    start_within or false, false, 0, false,
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
    table.insert(run[SPENT], 'lapsed:' .. lapsed)
  end
  run[LAPSES] = lapses
  -- once it was begun the time to begin counts anew
  local deadline = run[START_WITHIN] and (run[DEADLINE] or time + run[START_WITHIN])
  return grant(run, deadline, false)
end

local function start(mark)
  local floor = tonumber(redis.call('HGET', RECORD, 'floor'))
  local deadline = start_within and due + start_within or false
  if not floor then
    local in_time = mode == 'scheduled' and due <= time and time - due <= tonumber(ARGV[9])
    floor = in_time and due - 1 or time
    -- whoever asks with an older one found its slot by what the server has lost
    make_record(floor, in_time and after and math.min(floor, after) or floor)
  end
  if due <= floor then
    return {time, 'done'}
  elseif after and (after < tonumber(redis.call('HGET', RECORD, 'newest')) or due <= after) then
    return {time, 'done'}
  elseif mode == 'takeover' or time < due then
    return {time, 'none'}
  elseif time - due > tonumber(ARGV[9]) or (deadline and deadline <= time) then
    return {time, 'late'}
  elseif mark and mode == 'catch-up' then
    return {time, 'done'}
  end
  if ARGV[6] == 'skip' then
    local blocker = busy_other()
    if blocker then
      if not mark then
        open_attempt(new_run({}), 0, 'skipped', 0, time)
        if is_newest() then
          redis.call('HSET', RECORD, 'newest', slot)
        end
      end
      return overlaps(blocker)
    end
    for _, other in ipairs(redis.call('ZRANGE', OPEN, 0, -1)) do
      local run = find(other)
      local fate = run[TOKEN] and 'lost' or 'interrupted'
      end_run(other, run, is_overdue(run, time) and 'expired' or fate, time)
    end
  end
  return grant(new_run(mark and mark[ATTEMPTS] or {}), deadline, is_newest())
end

if not is_decided then
  return start(run)
elseif is_overdue(run, time) then
  end_run(slot, run, 'expired', time)
  return {time, 'done'}
elseif mode ~= 'takeover' or run[TOKEN] == token or is_spent(run, token)
  or is_spent(run, 'lapsed:' .. token) then
  -- a repeat of a request whose attempt is over must not start another
  return answer('running', run)
end
return take_over(run)
