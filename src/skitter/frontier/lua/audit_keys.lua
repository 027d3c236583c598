--[[
audit_keys: the type and the expiry of each key.

FLAGS  no-writes
KEYS   control  hash   routes the call to the right node of a cluster
EACH   key      text   the full name of a key of this shard
REPLY  list   per key its type (`none` if it is gone) and ms until it expires (-1: never)
COST   O(keys)
]]
local reply = {}
for at = EACH.start, #ARGV do
  reply[#reply + 1] = redis.call('TYPE', ARGV[at]).ok
  reply[#reply + 1] = redis.call('PTTL', ARGV[at])
end
return reply
