#!lua
-- Claim a slot by an entry that is added once for its idempotency id, the slot. Whoever adds it
-- again is told the first one's id and no more, so the entry is read back to see whose it is.
--
-- KEYS    the stream of claims: slot, token, instance; the history
-- ARGV    those of the prelude; for how many seconds an id is remembered, and how many ids at
--         most; about how many entries are kept

local function owner_of(entry)
  return entry[2][4], entry[2][6]
end

local refused = refusal()
if refused then
  -- without making a claim of it
  local found = find(CLAIMS)
  if found then
    return taken(owner_of(found))
  end
  return {time, refused, false}
end

local newest = redis.call('XREVRANGE', CLAIMS, '+', '-', 'COUNT', 1)[1]
if not newest then
  -- before the first id: setting it to other values forgets all
  redis.call('XADD', CLAIMS, '*', 'slot', '')
  redis.call('XCFGSET', CLAIMS, 'IDMP-DURATION', ARGV[6], 'IDMP-MAXSIZE', ARGV[7])
  newest = redis.call('XREVRANGE', CLAIMS, '+', '-', 'COUNT', 1)[1]
end
local entry = {'slot', slot, 'token', token, 'instance', instance}
local id = redis.call(
  'XADD', CLAIMS, 'IDMP', 'anarchon', slot, 'MAXLEN', '~', ARGV[8], '*', unpack(entry)
)
local found = redis.call('XRANGE', CLAIMS, id, id)[1]
if not found then
  -- the id outlives its entry: somebody has the slot
  return {time, 'done', false}
end

local function parts_of(id)
  local millis, count = string.match(id, '(%d+)-(%d+)')
  return tonumber(millis), tonumber(count)
end

local millis, count = parts_of(id)
local newest_millis, newest_count = parts_of(newest[1])
if millis > newest_millis or (millis == newest_millis and count > newest_count) then
  return won()
end
return taken(owner_of(found))
