#!lua flags=no-writes
-- Name the commands that the user who calls this may not run on our keys; runs none of them.
--
-- ARGV    a key of ours, which need not lie here; then for each command its name and how many
--         arguments it takes: with fewer some servers look behind the last one, and die of it
-- Answer  the names of those that are not allowed, and of those that there are not, after a '?'

local objections = {}
for at = 2, #ARGV, 2 do
  local arguments = {}
  for place = 1, tonumber(ARGV[at + 1]) do
    arguments[place] = place == 1 and ARGV[1] or '1'
  end
  local is_there, allowed = pcall(redis.acl_check_cmd, ARGV[at], unpack(arguments))
  if not is_there then
    table.insert(objections, '?' .. ARGV[at])
  elseif not allowed then
    table.insert(objections, ARGV[at])
  end
end
return objections
