#!lua flags=allow-oom
-- End a run.
--
-- KEYS    the four of the prelude
-- ARGV    slot, token, state, nonce or '', detail or ''; each of the two after a '='
-- Answer  time, 1 or 0: whether the run is, or was, theirs to end

local slot, token = ARGV[1], ARGV[2]
local time = now()
local run = find(slot)
if not run or not is_held_by(run, token, optional(ARGV[4])) then
  return {time, 0}
end
if not has_ended(run) then
  close(run, ARGV[3], time, optional(ARGV[5]))
  run[STATE] = ARGV[3]
  redis.call('ZREM', OPEN, slot)
end
-- also what is kept already: a server waits for its replicas by what a connection has written
keep(slot, run)
return {time, 1}
