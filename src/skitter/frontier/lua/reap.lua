--[[
reap: take back expired leases. `lease` does so too; this verb is for a job that no worker leases
from.

FLAGS  allow-oom
ARGV   at_most  int    take back at most this many
REPLY  int    how many were taken back
COST   O(at_most * log N)
]]
--@include once reap enqueue
local taken = reap(at_most)
commit()
return remember(taken)
