--[[
renew_permits: renew the permits of pumps.

FLAGS  allow-oom
KEYS   permits  zset   permit -> ms at which it expires
ARGV   ttl_ms   int    how long from now
EACH   permit   text
REPLY  ints   per permit 1, or 0: it expired or was withdrawn, so stop working
COST   O(permits * log N)
]]
--@include clock limits
local answers = {}
for at = EACH.start, #ARGV, EACH.stride do
  local good = redis.call('ZSCORE', permits, ARGV[at])
  if good then redis.call('ZADD', permits, now_ms + ttl_ms, ARGV[at]) end
  answers[#answers + 1] = good and 1 or 0
end
return answers
