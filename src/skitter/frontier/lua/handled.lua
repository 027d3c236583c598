--[[
handled: add to the counts of what handlers did; nothing depends on them.

FLAGS  allow-oom
KEYS   handled  hash   what, handler, perhaps selector -> how often
ARGV   keep     int    keep at most this many counts
EACH   counter  text
       by       int
REPLY  int    how many counters were given
COST   O(counters)
]]
--@include once
for at = EACH.start, #ARGV, EACH.stride do
  local known = redis.call('HEXISTS', handled, ARGV[at]) == 1
  if known or redis.call('HLEN', handled) < keep then
    redis.call('HINCRBY', handled, ARGV[at], ARGV[at + 1])
  end
end
return remember((#ARGV - EACH.start + 1) / EACH.stride)
