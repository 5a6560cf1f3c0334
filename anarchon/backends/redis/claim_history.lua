#!lua flags=no-writes
-- Read the newest attempts of a job, newest slot first.
--
-- KEYS    the history
-- ARGV    limit, at least 1
-- Answer  time, then for each attempt its fields and their values

local time = redis.call('TIME')
local limit = tonumber(ARGV[1])
-- entries lie in the order they were written, and slots nearly so
local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', limit + 64)
table.sort(newest, function(one, other)
  return tonumber(one[2][2]) > tonumber(other[2][2])
end)
local answer = {time[1] * 1000 + math.floor(time[2] / 1000)}
for at = 1, math.min(limit, #newest) do
  answer[at + 1] = newest[at][2]
end
return answer
