#!lua
-- Claim a slot by a key of its own, which goes when nobody can ask for the slot in time any more.
--
-- KEYS    the key of the slot, the history
-- ARGV    those of the prelude, and for how long the key stays

local known = redis.call('GET', CLAIMS)
if known then
  return taken(unpack(cjson.decode(known)))
end
local refused = refusal()
if refused then
  return {time, refused, false}
end
redis.call('SET', CLAIMS, cjson.encode({token, instance}), 'NX', 'PX', ARGV[6])
return won()
