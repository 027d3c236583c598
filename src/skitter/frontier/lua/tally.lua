--[[
tally: add to counters that are only for display; nothing depends on them.

FLAGS  allow-oom
EACH   counter  text
       by       int
REPLY  int    how many counters were given
COST   O(counters)
]]
--@include once counters
for at = EACH.start, #ARGV, EACH.stride do count(ARGV[at], tonumber(ARGV[at + 1])) end
write_counters()
return remember((#ARGV - EACH.start + 1) / EACH.stride)
