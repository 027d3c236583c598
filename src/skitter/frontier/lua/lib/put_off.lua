--[[
put_off: note that a request to a host left, or will leave, at that moment. A later one stays.
]]
--@include clock lane
local function put_off(name, moment_ms)
  local clock = clock_name(name)
  if moment_ms > peek(clock).asked_at then host(clock).asked_at = moment_ms end
end
