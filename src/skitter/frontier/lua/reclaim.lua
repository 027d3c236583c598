--[[
reclaim: take leases back from a worker known to be dead, before they expire. It still counts as a
loss, as one of them may have killed it. If nobody saw it die, the rule for expired leases applies
(lib/losses.lua): a power cut may have ended it.

FLAGS  allow-oom
ARGV   seen     int    1: a surviving process saw it die
       alone    int    1: this is the only lease that it had
       why      text   what it died of; empty: unknown
EACH   fp       text
       token    text   as read from `holder`; a lease that has changed hands since is left alone
REPLY  int    how many were taken back
COST   O(leases * log N)
]]
--@include once losses enqueue
expect_losses()
local fps, held = {}, {}
for at = EACH.start, #ARGV, EACH.stride do fps[#fps + 1] = ARGV[at] end
for i, token in ipairs(bulk_read('HMGET', holder, fps)) do
  if token == ARGV[EACH.start + (i - 1) * EACH.stride + 1] then held[#held + 1] = fps[i] end
end
lose_all(held, { seen = seen == 1, alone = alone == 1, why = why })
commit()
return remember(#held)
