--[[
add: offer requests; those never seen become pending. Deduplication and enqueueing are one atomic
step, so a crash between the two cannot lose a URL.

ARGV   links    int    1: a handler found them, so max_pending does not apply
EACH   fp       text   fingerprint
       host     text   politeness key
       priority int
       depth    int    links from a seed
       record   bytes  stored in `task`: lib/record.lua
REPLY  ints   a code per request: NEW, SEEN, FULL, DEEP or CLOSED
COST   O(requests); one split of at most 512 fingerprints per 200 new ones
]]
--@include once accept room enqueue
-- As in complete.lua: a page in flight when the job was cancelled may still deliver its links.
if links == 1 and limits.state == 'cancel' then limits.open = true end

local room = links == 0 and room_left() or math.huge
local names = {}
for at = EACH.start, #ARGV, EACH.stride do names[#names + 1] = ARGV[at + 1] end
load_hosts(names) -- all of them with one HMGET

local codes = {}
for at = EACH.start, #ARGV, EACH.stride do
  local code = accept(at, room > 0)
  if code == NEW then room = room - 1 end
  codes[#codes + 1] = code
end

write_accepted()
commit()
return remember(codes)
