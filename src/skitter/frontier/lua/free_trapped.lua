--[[
free_trapped: URLs that were held in traps become pending again, because somebody changed the
budget. Those that are still beyond it will be held again.

FLAGS  allow-oom
ARGV   at_most  int    how many
REPLY  int    how many there were
COST   O(at_most * log N)
]]
--@include once limits free commit
local freed = free(redis.call('ZRANGE', trapped, '-inf', '+inf', 'BYSCORE', 'LIMIT', 0, at_most))
commit()
return remember(freed)
