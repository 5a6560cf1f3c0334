-- Put in front of every script that claims, after its first line. Both keys lie under one hash
-- tag:
--
--   CLAIMS   what says who has a slot; each mode keeps it in its own way
--   HISTORY  stream  one entry an attempt: slot, state, instance, started [, ended, detail,
--                    worker, message, begun]
--
-- Times and durations are whole milliseconds, and so is everything answered as a time.
--
-- ARGV    slot, token, instance, begins_as, within, then what the mode wants besides
-- Answer  time, outcome, holder or false

local CLAIMS, HISTORY = KEYS[1], KEYS[2]
local slot, token, instance = ARGV[1], ARGV[2], ARGV[3]
local due, within = tonumber(slot), tonumber(ARGV[5])

local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local time = now()

-- What a slot hears that nobody has claimed: nothing, if it may be won now.
local function refusal()
  return time < due and 'none' or time - due > within and 'late' or nil
end

-- Finds what was written of this slot. An entry's id is the time it was written, and nothing is
-- before its slot; some servers take the time anew for it.
local function find(stream)
  local earliest = string.format('%.0f', math.max(0, due - 1000))
  for _, entry in ipairs(redis.call('XRANGE', stream, earliest, '+')) do
    if entry[2][2] == slot then
      return entry
    end
  end
end

local function won()
  -- of a claim that was lost
  local before = find(HISTORY)
  if before then
    redis.call('XDEL', HISTORY, before[1])
  end
  local opened = {'slot', slot, 'state', ARGV[4], 'instance', instance, 'started', time}
  redis.call('XADD', HISTORY, '*', unpack(opened))
  return {time, 'won', instance}
end

-- The slot is taken: the same token has it, and perhaps never heard of it.
local function taken(owner, holder)
  if owner ~= token then
    return {time, 'done', holder}
  end
  -- a server waits for its replicas by what a connection has written, so this one writes
  redis.call('XDEL', HISTORY, redis.call('XADD', HISTORY, '*', 'again', slot))
  return {time, 'won', holder}
end
