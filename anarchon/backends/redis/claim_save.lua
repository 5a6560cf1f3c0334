#!lua
-- Write how an attempt ended, in the place of what its slot's record said before.
--
-- KEYS    the history
-- ARGV    how many attempts to keep, then the fields of the entry and their values, slot first
-- Answer  time, 1

local HISTORY = KEYS[1]
local keep, slot = tonumber(ARGV[1]), ARGV[3]
local PIECE = 16

-- An entry's id is the time it was written, and nothing is before its slot; some servers take the
-- time anew for it.
local earliest = string.format('%.0f', math.max(0, tonumber(slot) - 1000))

local function id_of(wanted)
  local from = '+'
  while true do
    local some = redis.call('XREVRANGE', HISTORY, from, earliest, 'COUNT', PIECE)
    for _, entry in ipairs(some) do
      if entry[2][2] == wanted then
        return entry[1]
      end
    end
    if #some < PIECE then
      return nil
    end
    from = '(' .. some[#some][1]
  end
end

local function is_older(one, other)
  return tonumber(one[2][2]) < tonumber(other[2][2])
end

local before = id_of(slot)
if before then
  redis.call('XDEL', HISTORY, before)
end
redis.call('XADD', HISTORY, '*', unpack(ARGV, 2))
local over = redis.call('XLEN', HISTORY) - keep
if over > 0 then
  -- entries lie in the order they were written, and slots nearly so
  local first = redis.call('XRANGE', HISTORY, '-', '+', 'COUNT', over + PIECE)
  table.sort(first, is_older)
  for at = 1, over do
    redis.call('XDEL', HISTORY, first[at][1])
  end
end
local time = redis.call('TIME')
return {time[1] * 1000 + math.floor(time[2] / 1000), 1}
