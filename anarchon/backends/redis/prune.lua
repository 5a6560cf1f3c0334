#!lua flags=allow-oom
-- Delete what retention allows, and raise the floor over it.
--
-- KEYS    the four of the prelude
-- ARGV    keep, spare, retention
-- Answer  time, how many attempts went

local time = now()
local surplus = tonumber(redis.call('LINDEX', ORDER, -1 - tonumber(ARGV[1])) or 0)
local up_to = math.min(math.max(surplus, time - tonumber(ARGV[3])), time - tonumber(ARGV[2]))

local gone, newest, place = 0, nil, 0
local slot = redis.call('LINDEX', ORDER, place)
while slot and tonumber(slot) <= up_to do
  local run = find(slot)
  -- of a run with several attempts, the second of its places finds it gone already
  if run and not has_ended(run) then
    place = place + 1
  else
    redis.call('HDEL', RUNS, slot)
    redis.call('LREM', ORDER, 1, slot)
    gone, newest = gone + 1, tonumber(slot)
  end
  slot = redis.call('LINDEX', ORDER, place)
end
if newest and newest > tonumber(redis.call('HGET', RECORD, 'floor') or 0) then
  redis.call('HSET', RECORD, 'floor', newest)
end
return {time, gone}
