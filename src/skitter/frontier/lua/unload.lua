--[[
unload: remove items that a loader is done with from the stream, and count those it stored.

FLAGS  allow-oom
KEYS   items    stream what handlers yielded
ARGV   name     text   group
       stored   int    1: stored; 0: skipped or rejected
       updated  int    how many rows of earlier visits they replaced
EACH   entry    text   id in the stream
REPLY  int    how many were removed; an item unloaded twice counts once
COST   O(items)
]]
--@include once counters
local gone = 0
for at = EACH.start, #ARGV, EACH.stride do
  redis.call('XACK', items, name, ARGV[at])
  gone = gone + redis.call('XDEL', items, ARGV[at])
end
if stored == 1 then count('stored', gone) end
if updated > 0 then count('updated', updated) end
write_counters()
return remember(gone)
