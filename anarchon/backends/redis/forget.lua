#!lua flags=allow-oom
-- End as lost, or expired, what has been unfinished, and not busy, for too long.
--
-- KEYS    the four of the prelude
-- ARGV    retention
-- Answer  time, the oldest slot that is still unfinished, or else the time

local time = now()
local oldest = time
local open = redis.call('ZRANGE', OPEN, 0, -1, 'WITHSCORES')
for i = 1, #open, 2 do
  local slot = tonumber(open[i])
  if tonumber(open[i + 1]) <= time and time - slot > tonumber(ARGV[1]) then
    local run = find(open[i])
    end_run(open[i], run, is_overdue(run, time) and 'expired' or 'lost', time)
  else
    oldest = math.min(oldest, slot)
  end
end
return {time, oldest}
