#!lua flags=allow-oom
-- Note that a run waits in the broker, for its first worker or for a retry.
--
-- KEYS    the four of the prelude
-- ARGV    slot, token [, nonce, retry, delay]: without a nonce it is the publisher's mark
-- Answer  time, 1 or 0: whether the run waits now

local slot, token, nonce, retry = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local time = now()
local run = find(slot)
if not run or has_ended(run) or run[TOKEN] ~= token then
  return {time, 0}
end
local last = last_of(run)
if not nonce then
  if run[STATE] ~= 'claimed' or not run[START_WITHIN] then
    return {time, 0}
  end
else
  if run[NONCE] ~= nonce or retry <= run[RETRY] then
    return {time, 0}
  end
  run[DEADLINE] = time + tonumber(ARGV[5]) + run[START_WITHIN]
  run[RETRY], run[NONCE], last[WORKER] = retry, false, false
end
run[STATE], last[OUTCOME] = 'queued', 'queued'
keep(slot, run)
redis.call('ZADD', OPEN, run[DEADLINE], slot)
return {time, 1}
