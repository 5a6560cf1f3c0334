#!lua
-- Claim a slot by an entry that has the slot for its id: a stream takes no id that is not greater
-- than all it ever had, so nothing older than the newest slot can be claimed, and no slot twice.
--
-- KEYS    the stream of slots: token, instance; the history
-- ARGV    those of the prelude, and about how many of the newest slots tell who has them

local id = slot .. '-0'

local function owner_of(entry)
  return entry[2][2], entry[2][4]
end

local found = redis.call('XRANGE', CLAIMS, id, id)[1]
if found then
  return taken(owner_of(found))
end
local newest = redis.call('XREVRANGE', CLAIMS, '+', '-', 'COUNT', 1)[1]
if newest and tonumber(string.match(newest[1], '%d+')) > due then
  return {time, 'done', false}
end
local refused = refusal()
if refused then
  return {time, refused, false}
end
local entry = {id, 'token', token, 'instance', instance}
local added = redis.pcall('XADD', CLAIMS, 'MAXLEN', '~', ARGV[6], unpack(entry))
if type(added) == 'table' and added.err then
  -- it is remembered though its entry is gone
  if string.find(added.err, 'equal or smaller', 1, true) then
    return {time, 'done', false}
  end
  return added
end
return won()
