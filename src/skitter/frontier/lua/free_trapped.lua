--[[
free_trapped: URLs that were held in traps become pending again, because somebody changed the
budget. Those that are still beyond it will be held again.

FLAGS  allow-oom
ARGV   at_most  int    how many
REPLY  int    how many there were
COST   O(at_most * log N)
]]
--@include once limits looks free commit
local traps = redis.call('ZRANGE', looks, TRAP, TRAP, 'BYSCORE', 'LIMIT', 0, at_most)
for _, one in ipairs(traps) do look_anew(one) end
local freed = free(redis.call('ZRANGE', trapped, '-inf', '+inf', 'BYSCORE', 'LIMIT', 0, at_most))
commit()
return remember(freed)
