--[[
renew: keep tickets of pumps for longer.

FLAGS  allow-oom
KEYS   tickets  zset   ticket -> ms until which it is good
ARGV   ttl_ms   int    how long from now
EACH   ticket   text
REPLY  1 per ticket, or 0: it is void, stop working
COST   O(tickets * log N)
]]
--@include clock limits
local answers = {}
for at = EACH.start, #ARGV, EACH.stride do
  local good = redis.call('ZSCORE', tickets, ARGV[at])
  if good then redis.call('ZADD', tickets, now_ms + ttl_ms, ARGV[at]) end
  answers[#answers + 1] = good and 1 or 0
end
return answers
