--[[
figures: read histograms or tables of a job, many in one round trip.

FLAGS  no-writes
KEYS   timings  hash   bucket -> count; step/slot/name
       tables   hash   member -> `ok failed bytes ms ...`; step/slot/name
ARGV   kind     text   timings or tables
EACH   member   text   step/slot/name
REPLY  list   per member, a list of fields and values
COST   O(fields)
]]
local family, found = kind == 'tables' and tables or timings, {}
for at = EACH.start, #ARGV do
  found[#found + 1] = redis.call('HGETALL', family .. ARGV[at])
end
return found
