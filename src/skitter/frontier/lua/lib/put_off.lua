--[[
put_off: a request to a host left at that moment, or will. A later moment that is known of stays.
]]
--@include clock lane
local function put_off(name, moment_ms)
  local clock = clock_name(name)
  if moment_ms > peek(clock).asked_at then host(clock).asked_at = moment_ms end
end
