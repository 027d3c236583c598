--[[
finish_callback: it has run; this is what came of it. Refused from whoever does not hold it any more.

FLAGS  allow-oom
KEYS   callback hash    claim, until (ms), value
ARGV   claim    text
       value    text
REPLY  int    1, also when repeated; 0: somebody else has it
COST   O(1)
]]
--@include limits
if redis.call('HGET', callback, 'claim') ~= claim then return 0 end
redis.call('HSETNX', callback, 'value', value)
return 1
