--[[
bury: turn leased requests into dead letters, with the reason. They can be read and revived. What
the job's patterns exclude is set aside in the same place, but counts as excluded and not as dead;
if the patterns have changed since it was judged, it is pending again.

FLAGS  allow-oom
EACH   fp       text
       token    text
       reason   text
       feedback bytes  feedback.lua
       patterns text   those that exclude it; empty: it has failed
       moment_ms int   its host's turn that it was leased in; an excluded request gives it back
REPLY  ints   a code per lease: BURIED, RELEASED or LOST
COST   O(leases * log N)
]]
--@include end_each trouble feedback excluded delay
local function give_up(claim)
  local entry, patterns = trouble_of(claim.fp), ARGV[claim.at + 4]
  if patterns == '' then
    entry.failures = entry.failures + 1
  elseif patterns ~= current_patterns() then
    local priority, name = unpack_record(claim.record)
    enqueue(claim.fp, name, priority)
    return RELEASED
  end
  learn(claim, ARGV[claim.at + 3])
  bury(claim.fp, entry, ARGV[claim.at + 2])
  if patterns ~= '' then
    set_aside(claim.fp)
    give_turn_back(claim.host, tonumber(ARGV[claim.at + 5]))
  end
  return BURIED
end

expect('zset', dead)
expect('hash', trouble, pages)
return end_each(give_up)
