--[[
record: log finished requests, for the audit of politeness.

FLAGS  allow-oom
EACH   trip     text   `host at_ms ago_ms took_ms delay_ms url`: trips.lua
REPLY  int    how many were given
COST   O(trips)
]]
--@include once trips
local rows = {}
for at = EACH.start, #ARGV do rows[#rows + 1] = ARGV[at] end
keep_trips(rows)
return remember(#rows)
