#!lua flags=allow-oom
-- Give a lease back; a run of one attempt ends if its work had begun.
--
-- KEYS    the four of the prelude
-- ARGV    slot, token, 1 or 0: whether its work had begun
-- Answer  time, 1 or 0: whether the token is the run's, or was until it released it

local slot, token = ARGV[1], ARGV[2]
local time = now()
local run = find(slot)
if not run or has_ended(run) or not is_held_by(run, token, false) then
  return {time, run and is_spent(run, token) and 1 or 0}
end
close(run, 'interrupted', time)
run[TOKEN] = false
table.insert(run[SPENT], token)
if ARGV[3] == '1' and run[MAX_ATTEMPTS] == 1 then
  run[STATE] = 'interrupted'
  redis.call('ZREM', OPEN, slot)
else
  redis.call('ZADD', OPEN, 0, slot)
end
keep(slot, run)
return {time, 1}
