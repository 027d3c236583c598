--[[
audit_keys: what kind of keys there are, each at one moment.

FLAGS  no-writes
KEYS   control  hash   tells a cluster which node to ask
EACH   key      text   the whole name of a key of this shard
REPLY  list   per key its type (`none` if it has gone) and ms until it expires (-1: never)
COST   O(keys)
]]
local reply = {}
for at = EACH.start, #ARGV do
  reply[#reply + 1] = redis.call('TYPE', ARGV[at]).ok
  reply[#reply + 1] = redis.call('PTTL', ARGV[at])
end
return reply
