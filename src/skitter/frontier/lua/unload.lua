--[[
unload: note that a loader is done with items. Those that no other output waits for leave the stream,
and count as stored if this one stored them.

FLAGS  allow-oom
KEYS   items    stream what handlers yielded
ARGV   name     text   group of the output; empty: only remove what no output waits for
       stored   int    1: stored; 0: skipped or rejected
       updated  int    how many rows of earlier visits they replaced
EACH   entry    text   id in the stream
REPLY  int    how many were removed; an item unloaded twice counts once
COST   O(items * outputs)
]]
--@include once counters readers
local gone, others = 0, other_readers(name)
if name == '' and #others == 0 then return remember(0) end -- nobody has read anything
for at = EACH.start, #ARGV, EACH.stride do
  if name ~= '' then redis.call('XACK', items, name, ARGV[at]) end
  if not is_wanted(ARGV[at], others) then gone = gone + redis.call('XDEL', items, ARGV[at]) end
end
if stored == 1 then count('stored', gone) end
if updated > 0 then count('updated', updated) end
write_counters()
return remember(gone)
