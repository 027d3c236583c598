--[[
group: create the consumer group that reads items, unless it exists.

FLAGS  allow-oom
KEYS   items    stream what handlers yielded
ARGV   name     text   group
REPLY  int    1: it exists
COST   O(1)
]]
--@include limits
local made = redis.pcall('XGROUP', 'CREATE', items, name, '0', 'MKSTREAM')
return made.err and not string.find(made.err, 'BUSYGROUP') and made or 1
