#!lua flags=allow-oom
-- End a run.
--
-- KEYS    the four of the prelude
-- ARGV    slot, token, state [, detail]
-- Answer  time, 1 or 0: whether the token is the run's

local slot, token = ARGV[1], ARGV[2]
local time = now()
local run = find(slot)
if not run or run[TOKEN] ~= token then
  return {time, 0}
end
if not has_ended(run) then
  close(run, ARGV[3], time, ARGV[4])
  run[STATE] = ARGV[3]
  keep(slot, run)
  redis.call('ZREM', OPEN, slot)
end
return {time, 1}
