--[[
robots: share the robots.txt of a host with the fleet, or claim the fetching of it.

KEYS   robots   string one per host: what was answered; empty while somebody fetches it
ARGV   name     text   host
       rules    bytes  empty: a claim, which only one has
       ttl_ms   int    how long it holds
REPLY  1, or 0 if somebody else has it or it would not hold at all
COST   O(1)
]]
--@include once
local answer = answered()
if answer then return answer end

if ttl_ms <= 0 then return remember(0) end
local only_if = rules == '' and { 'NX' } or {}
local stored = redis.call('SET', robots .. name, rules, 'PX', ttl_ms, unpack(only_if))
return remember(stored and 1 or 0)
