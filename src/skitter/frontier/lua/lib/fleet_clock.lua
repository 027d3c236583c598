--[[
fleet_clock: the time, for data that belongs to no job.

ARGV   now      text   server ms; empty outside of tests and simulation
]]
local function server_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local now_ms = tonumber(now) or server_ms()
