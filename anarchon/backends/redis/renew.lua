#!lua flags=allow-oom
-- Set a live lease anew.
--
-- KEYS    the four of the prelude
-- ARGV    slot, token, holder or '', after a '='
-- Answer  time, 1 or 0: whether the lease is theirs, and lives

local slot, token = ARGV[1], ARGV[2]
local time = now()
local run = find(slot)
if not run or run[TOKEN] ~= token or last_of(run)[WORKER] ~= optional(ARGV[3])
  or run[STATE] == 'queued' or not is_busy(slot, time) then
  return {time, 0}
end
set_lease_anew(slot, run, time)
return {time, 1}
