--[[
unload: items that a loader is done with leave the stream; those that it stored are counted.

FLAGS  allow-oom
KEYS   items    stream what handlers yielded
ARGV   name     text   group
       stored   int    1: they are stored; 0: left out, or rejected
EACH   entry    text   id in the stream
REPLY  int    how many there were: one that was done twice counts once
COST   O(items)
]]
--@include once counters
local gone = 0
for at = EACH.start, #ARGV, EACH.stride do
  redis.call('XACK', items, name, ARGV[at])
  gone = gone + redis.call('XDEL', items, ARGV[at])
end
if stored == 1 then count('stored', gone) end
write_counters()
return remember(gone)
