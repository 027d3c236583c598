--[[
block: let a host rest. A longer rest already in effect stays.
]]
--@include clock lane
local function block(name, for_ms)
  if for_ms <= 0 then return end
  local known = host(clock_name(name))
  known.blocked_until = math.max(known.blocked_until, now_ms + for_ms)
end
