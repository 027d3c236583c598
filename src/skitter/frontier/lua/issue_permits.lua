--[[
issue_permits: issue permits to the pumps of an outside engine, until `wanted` are out. An unrenewed
permit expires. Surplus permits are withdrawn, which their pumps learn when they renew them.
Browser pumps are counted separately: their permits start with the name of the lane.

FLAGS  allow-oom
KEYS   permits  zset   permit -> ms at which it expires
ARGV   wanted   int    how many pumps there should be
       ttl_ms   int    how long a new permit lasts
       lane     text   browser, or empty for all others
EACH   permit   text   a fresh name; only as many are used as permits are missing
REPLY  list   the permits that were issued; the same ones for a repeated call
COST   O(permits * log N)
]]
--@include clock limits
redis.call('ZREMRANGEBYSCORE', permits, '-inf', now_ms)
local BROWSER, MAX_PERMITS = 'browser-', 10000 -- bounds one call; the next call sees the rest
local issued, ours = {}, {}
local known = redis.call('ZRANGE', permits, '-inf', '+inf', 'BYSCORE', 'LIMIT', 0, MAX_PERMITS)
for _, permit in ipairs(known) do
  local is_browser = string.sub(permit, 1, #BROWSER) == BROWSER
  if is_browser == (lane == 'browser') then ours[#ours + 1] = permit end
end
local out = #ours
for i = 1, out - wanted do redis.call('ZREM', permits, ours[i]) end

for at = EACH.start, #ARGV, EACH.stride do
  local known = redis.call('ZSCORE', permits, ARGV[at])
  if known or out < wanted then
    issued[#issued + 1] = ARGV[at]
    redis.call('ZADD', permits, now_ms + ttl_ms, ARGV[at])
    if not known then out = out + 1 end
  end
end
return issued
