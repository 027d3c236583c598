--[[
budget: how many pages more may be handed out of max_pages. In a job of many shards each has a
share of it, which is what it was granted less what it has ceded: two counters that only grow, so
that whoever tells of them late or twice does no harm. See grant.lua.

KEYS   lease    zset   fingerprint -> ms
]]
--@include counters
local function pages_used()
  return read_counter('done') + redis.call('ZCARD', lease)
end

local function share()
  return read_counter('granted') - read_counter('ceded')
end

-- What is used has been granted, whoever allowed it; what is free beyond `keep` is handed back.
local function balance(keep)
  local free = share() - pages_used()
  if free < 0 then count('granted', -free) end
  if free > keep then count('ceded', free - keep) end
end
