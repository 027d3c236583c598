--[[
trips: log the latest requests to hosts with a delay, for the audit of politeness. If the worker
vanished, only the turn is known, not the departure: took_ms is -1.

KEYS   trips    list   `now_ms host at_ms ago_ms took_ms delay_ms url`: it left at at_ms, ago_ms
                       before now_ms; both are late by the duration of a call
]]
--@include bulk clock
local TRIPS_KEPT = 10000

local function keep_trips(rows)
  local prefix = string.format('%d ', now_ms)
  for i, row in ipairs(rows) do rows[i] = prefix .. row end
  bulk('RPUSH', trips, rows)
  redis.call('LTRIM', trips, -TRIPS_KEPT, -1)
end
