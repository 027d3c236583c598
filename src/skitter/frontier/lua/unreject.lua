--[[
unreject: forget rejected items whose pages are handled again.

KEYS   rejected stream the items
EACH   entry    text   its id
       field    text   what was wrong
REPLY  int    how many there were
COST   O(items)
]]
--@include once counters
local gone = 0
for at = EACH.start, #ARGV, EACH.stride do
  if redis.call('XDEL', rejected, ARGV[at]) == 1 then
    gone = gone + 1
    count('rejected', -1)
    count('rejected by ' .. ARGV[at + 1], -1)
  end
end
write_counters()
return remember(gone)
