--[[
audit_host: read each host's record, its place in the lists and its queue, atomically.

FLAGS  no-writes
KEYS   hosts    hash   host -> packed
       wait     zset   host -> ms
       queue    zset   one per host
EACH   name     text   host
REPLY  list   per host a list, with empty values where it is absent: its record, rank in due, ms in
       wait, requests in its queue, lowest score there
COST   O(hosts * log N)
]]
--@include lane
local function facts_of(name)
  return {
    redis.call('HGET', hosts, name) or '',
    redis.call('ZSCORE', due_for(name), name) or '',
    redis.call('ZSCORE', wait, name) or '',
    redis.call('ZCARD', queue .. name),
    redis.call('ZRANGE', queue .. name, 0, 0, 'WITHSCORES')[2] or '',
  }
end

local reply = {}
for at = EACH.start, #ARGV do reply[#reply + 1] = facts_of(ARGV[at]) end
return reply
