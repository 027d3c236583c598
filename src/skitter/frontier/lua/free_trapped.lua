--[[
free_trapped: make held URLs pending again: those in traps, after the budget was changed (those still
over budget will be held again), or those of a handler that a worker has now.

FLAGS  allow-oom
ARGV   at_most  int    free at most this many
       handler  text   its number, below 0; empty: those in traps
REPLY  int    how many were freed
COST   O(at_most * log N)
]]
--@include once limits shapes free enqueue
local from, to = 0, '+inf'
if handler ~= '' then
  from, to = handler, handler
else
  local traps = redis.call('ZRANGE', looks, TRAP, TRAP, 'BYSCORE', 'LIMIT', 0, at_most)
  for _, one in ipairs(traps) do look_anew(one) end
end
local freed = free(redis.call('ZRANGE', trapped, from, to, 'BYSCORE', 'LIMIT', 0, at_most))
commit()
return remember(freed)
