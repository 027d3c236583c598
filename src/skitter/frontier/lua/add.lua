--[[
add: offer requests; those never seen become pending. Deduplication and enqueueing are one atomic
step, so a crash between the two cannot lose a URL.

KEYS   delayed  zset   counts towards max_pending
ARGV   links    int    1: a handler found them, so max_pending does not apply
EACH   fp       text   fingerprint
       host     text   politeness key
       priority int
       depth    int    links from a seed
       record   bytes  stored in `task`: lib/record.lua
REPLY  ints   a code per request: NEW, SEEN, FULL, DEEP or CLOSED
COST   O(requests); one split of at most 512 fingerprints per 200 new ones
]]
--@include once accept commit
-- As in complete.lua: a page in flight when the job was cancelled may still deliver its links.
if links == 1 and limits.state == 'cancel' then limits.open = true end

-- Shelved requests are beyond their host's budget and will not be leased: they take up no room.
local room = math.huge
if links == 0 and limits.max_pending < math.huge then
  local waiting = read_counter('pending') - read_counter('shelved') + redis.call('ZCARD', delayed)
  room = own_part(limits.max_pending) - waiting
end

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
