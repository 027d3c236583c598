--[[
quota: how many pages a job may begin today, by the quotas of its tenants, which all their jobs use
up together. What is given back must be of the same day.

FLAGS  allow-oom
KEYS   begun    hash   of no job: tenant -> pages begun on that day; by day
ARGV   now      text   server ms; empty outside of tests and simulation
       wanted   int    at most this many
       back     int    of those granted, so many were not begun
       of_day   int    the day on which they were granted
EACH   tenant   text
       limit    int    pages per day
REPLY  ints   how many it may begin now, the day, ms until the next one
COST   O(tenants of the job)
]]
--@include fleet_clock fleet_once
local first = said_before()
if first then return first end
local DAY_MS, KEPT_S = 86400000, 172800
local today = math.floor(now_ms / DAY_MS)
local granted = wanted
for at = EACH.start, #ARGV, EACH.stride do
  local used = tonumber(redis.call('HGET', begun .. today, ARGV[at])) or 0
  granted = math.max(0, math.min(granted, tonumber(ARGV[at + 1]) - used))
end
for at = EACH.start, #ARGV, EACH.stride do
  if granted > 0 then redis.call('HINCRBY', begun .. today, ARGV[at], granted) end
  if back > 0 and of_day == today then
    local left = redis.call('HINCRBY', begun .. today, ARGV[at], -back)
    if left < 0 then redis.call('HSET', begun .. today, ARGV[at], 0) end -- it was set meanwhile
  end
end
redis.call('EXPIRE', begun .. today, KEPT_S)
return note_answer({ granted, today, (today + 1) * DAY_MS - now_ms })
