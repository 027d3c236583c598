--[[
trips: a record of the last requests to hosts that want a delay, for the audit of politeness. Of one
whose worker vanished it is known when its turn was, not when it left: took_ms is -1.

KEYS   trips    list   `told_ms host at_ms ago_ms took_ms delay_ms url`: it left at at_ms, and so long
                       before told_ms; both are a little late, by what a call took
]]
--@include bulk clock
local TRIPS_KEPT = 10000

local function keep_trips(rows)
  local told = string.format('%d ', now_ms)
  for i, row in ipairs(rows) do rows[i] = told .. row end
  bulk('RPUSH', trips, rows)
  redis.call('LTRIM', trips, -TRIPS_KEPT, -1)
end
