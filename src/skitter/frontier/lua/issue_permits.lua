--[[
issue_permits: permits for the pumps of an outside engine, until `wanted` are out. One that nobody
renewed is void; those over the number wanted are taken back, and whoever works with one hears so
when he renews it. Pumps for a browser are counted apart: their permits begin with the name of its
lane.

FLAGS  allow-oom
KEYS   permits  zset   permit -> ms until which it is good
ARGV   wanted   int    how many pumps there should be
       ttl_ms   int    how long a new permit is good
       lane     text   browser, or empty for all others
EACH   permit   text   a fresh name, of which as many are used as are missing
REPLY  list   the permits that were issued; for a repeated call, the same again
COST   O(permits * log N)
]]
--@include clock limits
redis.call('ZREMRANGEBYSCORE', permits, '-inf', now_ms)
local BROWSER, MOST = 'browser-', 10000 -- at once: were there more, the next call sees them
local issued, ours = {}, {}
local known = redis.call('ZRANGE', permits, '-inf', '+inf', 'BYSCORE', 'LIMIT', 0, MOST)
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
