--[[
catch_up: make up for time that the job's clock has left out, once nobody can be hurried by it.

It is behind the server's after a jump of that, an outage, or a pause that earlier releases took for
a jump: revisits would come that much later. It is set right if no client was there for longer than
any host rests by default, and nothing that is leased or waits would end early.

KEYS   lease    zset   fingerprint -> ms
       delayed  zset   fingerprint -> ms
       wait     zset   host -> ms
]]
--@include steady
local QUIET_MS = 3600000

local function last_moment(key)
  return tonumber(redis.call('ZRANGE', key, 0, 0, 'REV', 'WITHSCORES')[2]) or 0
end

-- Before `keep_steady`, which notes that somebody is here.
local function catch_up()
  local quiet = vouched_ms < 0 and clock_ms and now_ms - clock_ms >= QUIET_MS
  if limits.shift >= 0 or not quiet then return end
  if math.max(last_moment(lease), last_moment(delayed), last_moment(wait)) > now_ms then return end
  redis.call('HSET', control, 'shift', 0)
  now_ms = wall_ms
end
