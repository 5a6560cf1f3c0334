#!lua flags=allow-oom
-- Let a worker start what was published.
--
-- KEYS    the four of the prelude
-- ARGV    slot, token, retry, nonce, holder, message
-- Answer  time, 1 or 0: whether it may

local slot, token, retry, nonce = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local time = now()

local function may_begin(run)
  if run[TOKEN] ~= token or has_ended(run) or not run[START_WITHIN] then
    return false
  elseif run[NONCE] == nonce then
    return true
  elseif run[DEADLINE] and run[DEADLINE] <= time then
    return false
  end
  return retry > run[RETRY] or (retry == run[RETRY] and run[STATE] ~= 'running')
end

local run = find(slot)
if not run or not may_begin(run) then
  return {time, 0}
end
local last = last_of(run)
run[STATE], run[DEADLINE], run[RETRY], run[NONCE] = 'running', false, retry, nonce
last[OUTCOME], last[WORKER], last[MESSAGE] = 'running', ARGV[5], ARGV[6]
last[BEGUN] = last[BEGUN] or time
keep(slot, run)
redis.call('ZADD', OPEN, time + run[LEASE], slot)
return {time, 1}
