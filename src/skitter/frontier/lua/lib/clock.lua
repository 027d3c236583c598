--[[
clock: the time, read once, so that a script sees one moment.

  wall_ms  the server's clock, for what people read
  now_ms   the job's own clock, for delays and expiries: it does not jump when the server's is set
           (steady.lua)

ARGV   now      text   server ms; empty outside of tests and simulation
]]
--@include limits
local function server_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local wall_ms = tonumber(now) or server_ms()
local now_ms = wall_ms + limits.shift
