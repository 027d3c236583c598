--[[
stats: one moment of the shard, and whether it is finished.

FLAGS  no-writes
KEYS   stats    hash   counters
       task     hash
       holder   hash
       delayed  zset
       lease    zset
       dead     zset
       hosts    hash
       items    stream
REPLY  state, then names and values: finished (0 or 1), delayed, leased, dead, hosts, bodies,
       holders, items and every counter
COST   O(1)
]]
--@include limits counters
local leased, waiting = redis.call('ZCARD', lease), redis.call('ZCARD', delayed)
local left = read_counter('pending') - read_counter('shelved') + waiting
local spent = read_counter('done') >= limits.max_pages
local finished = leased == 0 and (left == 0 or spent or limits.state == 'cancel')

local reply = {
  limits.state,
  'finished', finished and 1 or 0,
  'delayed', waiting,
  'leased', leased,
  'dead', redis.call('ZCARD', dead),
  'hosts', redis.call('HLEN', hosts),
  'bodies', redis.call('HLEN', task),
  'holders', redis.call('HLEN', holder),
  'items', redis.call('XLEN', items),
}
for _, value in ipairs(redis.call('HGETALL', stats)) do reply[#reply + 1] = value end
return reply
