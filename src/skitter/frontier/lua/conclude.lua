--[[
conclude: it has run; this is what came of it. Refused from whoever does not hold it any more.

FLAGS  allow-oom
KEYS   finale   hash   claim, until (ms), value
ARGV   claim    text
       value    text
REPLY  1, also when repeated; 0: somebody else has it
COST   O(1)
]]
--@include limits
if redis.call('HGET', finale, 'claim') ~= claim then return 0 end
redis.call('HSETNX', finale, 'value', value)
return 1
