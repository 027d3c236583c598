--[[
budget: how much of max_pages is left. With several shards, each has a share: what it was granted
less what it has ceded. Both counters only grow, so a late or repeated report does no harm. See
grant.lua.

KEYS   lease    zset   fingerprint -> ms
]]
--@include counters
local function pages_used()
  return read_counter('done') + redis.call('ZCARD', lease)
end

local function share()
  return read_counter('granted') - read_counter('ceded')
end

-- Pages used beyond the share count as granted; those free beyond `keep` are ceded.
local function balance(keep)
  local free = share() - pages_used()
  if free < 0 then count('granted', -free) end
  if free > keep then count('ceded', free - keep) end
end
