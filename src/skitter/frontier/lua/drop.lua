--[[
drop: remove dead letters. They stay seen, so that a link does not bring them back, unless the
caller asks to forget them as if they had never been added.

FLAGS  allow-oom
KEYS   task     hash   fingerprint -> record
       depths   hash   fingerprint -> links from a seed
ARGV   forget   int    1: remove them from `seen` as well
EACH   fp       text
REPLY  int    how many were removed
COST   O(requests * log N)
]]
--@include once exhume seen
local fps = exhume()
bulk('HDEL', task, fps)
for _, fp in ipairs(fps) do
  local forgotten = forget == 1 and forget_seen(fp)
  count(forgotten and 'seen' or 'dropped', forgotten and -1 or 1)
  if forgotten then redis.call('HDEL', depths, fp) end
end
-- Workers cache the links they added lately. A new `born` makes them clear that cache.
if forget == 1 and #fps > 0 then redis.call('HINCRBY', control, 'born', 1) end
write_counters()
return remember(#fps)
