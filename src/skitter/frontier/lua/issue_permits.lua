--[[
issue_permits: permits for the pumps of an outside engine, until `wanted` are out. One that nobody renewed
is void; those over the number wanted are taken back, and whoever works with one hears so when he
renews it.

FLAGS  allow-oom
KEYS   permits  zset   permit -> ms until which it is good
ARGV   wanted   int    how many pumps there should be
       ttl_ms   int    how long a new permit is good
EACH   permit   text   a fresh name, of which as many are used as are missing
REPLY  list   the permits that were issued; for a repeated call, the same again
COST   O(permits * log N)
]]
--@include clock limits
redis.call('ZREMRANGEBYSCORE', permits, '-inf', now_ms)
local out = redis.call('ZCARD', permits)
if out > wanted then redis.call('ZPOPMIN', permits, out - wanted) end

local issued = {}
for at = EACH.start, #ARGV, EACH.stride do
  local known = redis.call('ZSCORE', permits, ARGV[at])
  if known or out < wanted then
    issued[#issued + 1] = ARGV[at]
    redis.call('ZADD', permits, now_ms + ttl_ms, ARGV[at])
    if not known then out = out + 1 end
  end
end
return issued
