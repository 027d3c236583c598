--[[
group: make the group that reads items, if there is none.

FLAGS  allow-oom
KEYS   items    stream what handlers yielded
ARGV   name     text   group
REPLY  int    1: it is there
COST   O(1)
]]
--@include limits
local made = redis.pcall('XGROUP', 'CREATE', items, name, '0', 'MKSTREAM')
return made.err and not string.find(made.err, 'BUSYGROUP') and made or 1
