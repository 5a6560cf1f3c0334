#!lua
-- Register a job, and say what is known of it.
--
-- KEYS    the four of the prelude
-- ARGV    fingerprint, how long other fingerprints are remembered
-- Answer  time, when the fingerprint was seen first, the newest slot that was won or skipped,
--         {fingerprint, last seen, ...} for each other one,
--         {slot, attempt, 1 or 0: busy, holder, ...} for each run that has not ended

local time = now()
if redis.call('HEXISTS', RECORD, 'floor') == 0 then
  make_record(time, time)
end

local first, others = time, {}
local fields = redis.call('HGETALL', RECORD)
for i = 1, #fields, 2 do
  local fingerprint = string.match(fields[i], '^seen:(.*)$')
  if fingerprint then
    local seen, last = string.match(fields[i + 1], '^(%d+) (%d+)$')
    if fingerprint == ARGV[1] then
      first = tonumber(seen)
    elseif time - tonumber(last) < tonumber(ARGV[2]) then
      table.insert(others, fingerprint)
      table.insert(others, tonumber(last))
    else
      redis.call('HDEL', RECORD, fields[i])
    end
  end
end
redis.call('HSET', RECORD, 'seen:' .. ARGV[1], string.format('%.0f %.0f', first, time))

local unfinished = {}
local open = redis.call('ZRANGE', OPEN, 0, -1, 'WITHSCORES')
for i = 1, #open, 2 do
  local last = last_of(find(open[i]))
  table.insert(unfinished, open[i])
  table.insert(unfinished, last[NUMBER])
  table.insert(unfinished, tonumber(open[i + 1]) > time and 1 or 0)
  table.insert(unfinished, last[INSTANCE])
end
return {time, first, redis.call('HGET', RECORD, 'newest'), others, unfinished}
