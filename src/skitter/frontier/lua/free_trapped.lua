--[[
free_trapped: make URLs held in traps pending again, after the budget was changed. Those still over
budget will be held again.

FLAGS  allow-oom
ARGV   at_most  int    free at most this many
REPLY  int    how many were freed
COST   O(at_most * log N)
]]
--@include once limits shapes free enqueue
local traps = redis.call('ZRANGE', looks, TRAP, TRAP, 'BYSCORE', 'LIMIT', 0, at_most)
for _, one in ipairs(traps) do look_anew(one) end
local freed = free(redis.call('ZRANGE', trapped, '-inf', '+inf', 'BYSCORE', 'LIMIT', 0, at_most))
commit()
return remember(freed)
