--[[
clock: the moment, read once, so that one script sees one.

  wall_ms  what the server's clock says: for what people read
  now_ms   the job's own clock, which does not jump when that one is set (steady.lua): for all that
           is waited for

ARGV   now      text   server ms; empty outside of tests and simulation
]]
--@include limits
local function server_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local wall_ms = tonumber(now) or server_ms()
local now_ms = wall_ms + limits.shift
