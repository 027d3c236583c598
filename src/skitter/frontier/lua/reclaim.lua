--[[
reclaim: take leases back from a worker that is known to be dead, before they run out. It counts
as a loss all the same: it may have died of one of them. If nobody saw it die, the rule of leases
that ran out holds (lib/reap.lua): a power cut may have ended it.

FLAGS  allow-oom
ARGV   seen     int    1: somebody saw it die, and lived
EACH   fp       text
       token    text   what `holder` said; a lease that somebody else has by now is left alone
REPLY  int    how many were taken back
COST   O(leases * log N)
]]
--@include once reap commit
local fps, held = {}, {}
for at = EACH.start, #ARGV, EACH.stride do fps[#fps + 1] = ARGV[at] end
for i, token in ipairs(bulk_read('HMGET', holder, fps)) do
  if token == ARGV[EACH.start + (i - 1) * EACH.stride + 1] then held[#held + 1] = fps[i] end
end
lose_all(held, seen == 1 and {} or taken_before_the_start(held))
commit()
return remember(#held)
