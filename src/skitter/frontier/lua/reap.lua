--[[
reap: take back leases that ran out. `lease` does the same in passing; this is for a crawl that
nobody leases from.

FLAGS  allow-oom
ARGV   at_most  int    how many
REPLY  int    how many were taken back
COST   O(at_most * log N)
]]
--@include once reap commit
local taken = reap(at_most)
commit()
return remember(taken)
