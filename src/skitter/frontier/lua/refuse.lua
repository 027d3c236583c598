--[[
refuse: remember links that were kept out, and count the distinct ones of each kind.

FLAGS  allow-oom
KEYS   refused  hash   `new` and `old`: fingerprint -> msgpack of kind, reason and page
       kept_out string one HyperLogLog per kind
       stats    hash   counters
ARGV   keep     int    keep between half this many and this many
EACH   fp       text
       kind     text   robots, scope, ...
       packed   bytes
REPLY  int    how many links were given
COST   O(links)
]]
--@include once bulk
local kinds, links = {}, {}
for at = EACH.start, #ARGV, EACH.stride do
  local kind = ARGV[at + 1]
  if redis.call('PFADD', kept_out .. kind, ARGV[at]) == 1 then kinds[kind] = true end
  links[#links + 1], links[#links + 2] = ARGV[at], ARGV[at + 2]
end
keep_newest(refused, links, keep)
for kind in pairs(kinds) do
  redis.call('HSET', stats, 'refused by ' .. kind, redis.call('PFCOUNT', kept_out .. kind))
end
return remember((#ARGV - EACH.start + 1) / EACH.stride)
