--[[
sink: claim the job's items for one destination, or learn which destination has them.

FLAGS  allow-oom
KEYS   sink     hash   place, at (server ms of the last claim)
ARGV   place    text   without a password
       instead  text   the place that this one may replace; empty: none
REPLY  text   the place that holds the claim
COST   O(1)
]]
--@include clock limits
local held = redis.call('HGET', sink, 'place')
if held and held ~= place and held ~= instead then return held end
redis.call('HSET', sink, 'place', place, 'at', wall_ms)
return place
