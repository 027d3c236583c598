--[[
tally: add to counters that are only for display; nothing depends on them.

FLAGS  allow-oom
EACH   counter  text
       by       text   what to add; `=5`: what it is by now
REPLY  int    how many counters were given
COST   O(counters)
]]
--@include once counters
for at = EACH.start, #ARGV, EACH.stride do
  local counter, now = ARGV[at], string.match(ARGV[at + 1], '^=(.*)')
  count(counter, now and tonumber(now) - read_counter(counter) or tonumber(ARGV[at + 1]))
end
write_counters()
return remember((#ARGV - EACH.start + 1) / EACH.stride)
