--[[
handing_out: whether to hand out requests now. This is backpressure: if loaders fall behind, workers
get no more work, so that a slow database does not fill the server.

KEYS   items    stream items that no loader has removed yet
]]
--@include limits
local held_back = limits.max_items < math.huge
  and redis.call('XLEN', items) >= own_part(limits.max_items)
local handing_out = limits.running and not held_back
