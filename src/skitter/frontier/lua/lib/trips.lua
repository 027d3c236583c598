--[[
trips: a record of the last requests to hosts that want a delay, for the audit of politeness. Of one
whose worker vanished it is known when its turn was, not when it left: took_ms is -1.

KEYS   trips    list   `left_ms took_ms delay_ms host url`
]]
local TRIPS_KEPT = 10000

local function note_trip(name, left_ms, took_ms, delay_ms, url)
  local row = string.format('%d %d %d %s %s', left_ms, took_ms, delay_ms, name, url)
  redis.call('RPUSH', trips, row)
end

local function trim_trips()
  redis.call('LTRIM', trips, -TRIPS_KEPT, -1)
end
