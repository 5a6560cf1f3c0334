#!lua flags=allow-oom
-- Set a live lease anew.
--
-- KEYS    the four of the prelude
-- ARGV    slot, token
-- Answer  time, 1 or 0: whether the token is the run's and its lease lives

local slot, token = ARGV[1], ARGV[2]
local time = now()
local run = find(slot)
if not run or run[TOKEN] ~= token or expires(slot) <= time then
  return {time, 0}
end
redis.call('ZADD', OPEN, time + run[LEASE], slot)
return {time, 1}
