--[[
bury: turn leased requests into dead letters, with the reason. They can be read and revived.

FLAGS  allow-oom
EACH   fp       text
       token    text
       reason   text
       feedback bytes  feedback.lua
REPLY  ints   a code per lease: BURIED or LOST
COST   O(leases * log N)
]]
--@include end_each trouble feedback
local function give_up(claim)
  local entry = trouble_of(claim.fp)
  entry.failures = entry.failures + 1
  learn(claim, ARGV[claim.at + 3])
  bury(claim.fp, entry, ARGV[claim.at + 2])
  return BURIED
end

return end_each(give_up)
