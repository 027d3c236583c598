--[[
allow: give a shard its new total grant of max_pages, and read back what it has used and ceded.

FLAGS  allow-oom
KEYS   due      zset   host -> rank
       due_browser zset   host -> rank
       due_file zset   host -> rank
       wait     zset   host -> ms
       delayed  zset   fingerprint -> ms
ARGV   granted  int    granted so far, from grant.lua's reply
       keep     int    other shards are short: cede all but this many; -1: cede nothing
REPLY  ints   granted, ceded and used (done or leased); empty if there is no limit
COST   O(log N)
]]
--@include handing_out budget clock
if limits.max_pages == math.huge then return {} end

-- Whether the shard could hand out anything now. If it only waits for hosts, it needs no pages yet.
local function has_use()
  local ready = redis.call('ZCARD', due) + redis.call('ZCARD', due_browser)
    + redis.call('ZCARD', due_file)
  return handing_out and (ready > 0
    or redis.call('ZCOUNT', wait, '-inf', now_ms) > 0
    or redis.call('ZCOUNT', delayed, '-inf', now_ms) > 0)
end

count('granted', math.max(0, granted - read_counter('granted')))
if keep < 0 then
  balance(math.huge)
else
  local left = read_counter('pending') - read_counter('shelved') + redis.call('ZCARD', delayed)
  balance(has_use() and math.min(keep, left) or 0)
end
local reply = { read_counter('granted'), read_counter('ceded'), pages_used() }
write_counters()
return reply
