--[[
allow: tell a shard how many of max_pages it was granted, and hear what it made of that.

FLAGS  allow-oom
KEYS   due      zset   host -> rank
       due_browser zset   host -> rank
       wait     zset   host -> ms
       delayed  zset   fingerprint -> ms
ARGV   told     int    granted so far, as grant.lua answered
       keep     int    others are short: cede all but so many; -1: cede nothing
REPLY  ints   granted, ceded and used (done or leased); nothing if this shard has no limit
COST   O(log N)
]]
--@include handing_out budget clock
if limits.max_pages == math.huge then return {} end

-- Whether anything at all could be handed out now; who waits for a host can do without meanwhile.
local function has_use()
  return handing_out and (redis.call('ZCARD', due) + redis.call('ZCARD', due_browser) > 0
    or redis.call('ZCOUNT', wait, '-inf', now_ms) > 0
    or redis.call('ZCOUNT', delayed, '-inf', now_ms) > 0)
end

count('granted', math.max(0, told - read_counter('granted')))
if keep < 0 then
  balance(math.huge)
else
  local left = read_counter('pending') - read_counter('shelved') + redis.call('ZCARD', delayed)
  balance(has_use() and math.min(keep, left) or 0)
end
local reply = { read_counter('granted'), read_counter('ceded'), pages_used() }
write_counters()
return reply
