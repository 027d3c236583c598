--[[
finish_callback: store the result of the callback. Only the holder of the claim may do so.

FLAGS  allow-oom
KEYS   callback hash    claim, until (ms), value
ARGV   claim    text
       value    text
REPLY  int    1, also for a repeated call; 0: the claim is another's
COST   O(1)
]]
--@include limits
if redis.call('HGET', callback, 'claim') ~= claim then return 0 end
redis.call('HSETNX', callback, 'value', value)
return 1
