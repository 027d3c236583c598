--[[
daily: pages of this day, by the server's clock in UTC. They are counted while there is a limit on
them. Pages in flight count as today's, so that the limit holds whenever they are completed.

KEYS   lease    zset   fingerprint -> ms
]]
--@include counters limits clock
local DAY_MS = 86400000
local today = math.floor(wall_ms / DAY_MS)

local function pages_today()
  return read_counter('day') == today and read_counter('pages_of_day') or 0
end

local function count_of_day(pages)
  if limits.max_pages_per_day == math.huge then return end
  local before = pages_today()
  count('pages_of_day', before + pages - read_counter('pages_of_day'))
  count('day', today - read_counter('day'))
end

local function left_today()
  if limits.max_pages_per_day == math.huge then return math.huge end
  local own = math.max(1, math.floor(limits.max_pages_per_day / (tonumber(limits.shards) or 1)))
  return own - pages_today() - redis.call('ZCARD', lease)
end

local function until_tomorrow_ms() return (today + 1) * DAY_MS - wall_ms end
