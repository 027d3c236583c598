--[[
handing_out: whether requests are handed out at all now. A slow database holds the workers back; it
does not fill the server.

KEYS   items    stream results that no loader has taken yet
]]
--@include limits
local held_back = limits.max_items < math.huge
  and redis.call('XLEN', items) >= own_part(limits.max_items)
local handing_out = limits.running and not held_back
