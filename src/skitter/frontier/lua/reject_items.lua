--[[
reject_items: keep items that could not be stored, with the reason, and count them by field.

KEYS   rejected stream the items, capped
ARGV   keep     int    cap, in items, roughly
EACH   field    text   what was wrong
       item     bytes  msgpack of the item and the reason
REPLY  int    how many were kept
COST   O(items)
]]
--@include once counters
for at = EACH.start, #ARGV, EACH.stride do
  redis.call('XADD', rejected, 'MAXLEN', '~', keep, '*', 'item', ARGV[at + 1])
  count('rejected', 1)
  count('rejected by ' .. ARGV[at], 1)
end
write_counters()
return remember((#ARGV - EACH.start + 1) / EACH.stride)
