--[[
room: how many requests the shard may still take, by max_pending. Shelved ones are beyond their
host's budget and will not be leased: they take up no room.

KEYS   delayed  zset   counts towards max_pending
]]
--@include limits counters
local function room_left()
  if limits.max_pending == math.huge then return math.huge end
  local waiting = read_counter('pending') - read_counter('shelved') + redis.call('ZCARD', delayed)
  return own_part(limits.max_pending) - waiting
end
