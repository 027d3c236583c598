--[[
stats: an atomic snapshot of the shard's counts.

FLAGS  no-writes
KEYS   stats    hash   counters
       task     hash
       holder   hash
       delayed  zset
       trapped  zset
       lease    zset
       dead     zset
       hosts    hash
       items    stream
REPLY  list   state, then names and values: max_pages (0: no limit), delayed, trapped, unhandled
       (held, as no worker has their handler), leased, dead, excluded, hosts, bodies, holders, items,
       reopened (pages whose links have to be offered again), revisits (pages to visit again), due
       (those to visit now), looks (shapes that await a last look), today (pages, if they have a
       limit), next_visit_ms (until a page is due, if one will be) and every counter
COST   O(1)
]]
--@include limits counters depth revisit shapes excluded daily
local excluded = count_excluded()
local reply = {
  limits.state,
  'max_pages', limits.max_pages < math.huge and limits.max_pages or 0,
  'delayed', redis.call('ZCARD', delayed),
  'trapped', redis.call('ZCOUNT', trapped, 0, '+inf'),
  'unhandled', redis.call('ZCOUNT', trapped, '-inf', '(0'),
  'leased', redis.call('ZCARD', lease),
  'dead', redis.call('ZCARD', dead) - excluded,
  'excluded', excluded,
  'hosts', redis.call('HLEN', hosts),
  'bodies', redis.call('HLEN', task),
  'holders', redis.call('HLEN', holder),
  'items', redis.call('XLEN', items),
  'reopened', count_to_reopen(),
  'revisits', redis.call('ZCARD', revisits),
  'due', count_due(),
  'looks', count_looks(),
  'today', pages_today(),
}
local next_visit_ms = until_next_visit()
if next_visit_ms then reply[#reply + 1], reply[#reply + 2] = 'next_visit_ms', next_visit_ms end
for _, value in ipairs(redis.call('HGETALL', stats)) do reply[#reply + 1] = value end
return reply
