#!lua flags=no-writes
-- Read the newest attempts of a job, and all others of the slots they are of.
--
-- KEYS    the four of the prelude
-- ARGV    limit, at least 1
-- Answer  time, then for each: {slot, attempt, state, instance, fence, started, ended, detail,
--         worker, message, begun}

local answer = {now()}
local previous
for _, slot in ipairs(redis.call('LRANGE', ORDER, -tonumber(ARGV[1]), -1)) do
  local run = slot ~= previous and find(slot)
  for _, attempt in ipairs(run and run[ATTEMPTS] or {}) do
    table.insert(attempt, 1, slot)
    table.insert(answer, attempt)
  end
  previous = slot
end
return answer
