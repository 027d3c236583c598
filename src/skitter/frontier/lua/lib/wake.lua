--[[
wake: make delayed requests pending and waiting hosts due, once their time has come.

KEYS   delayed  zset   fingerprint -> ms
       lease    zset   fingerprint -> ms
       task     hash   fingerprint -> record
]]
--@include enqueue record revisit
-- Each leased request sends at most one host back to `wait`, so waking twice as many hosts as a
-- lease takes never falls behind. Only hosts that are awake compete by priority, so after an idle
-- time even a lease of one wakes many.
local MANY = 50

local function wake(at_most)
  at_most = math.max(MANY, at_most)
  local ready = redis.call('ZRANGE', delayed, '-inf', now_ms, 'BYSCORE', 'LIMIT', 0, at_most)
  for i, record in ipairs(bulk_read('HMGET', task, ready)) do
    local priority, name = unpack_record(record or '')
    if name then enqueue(ready[i], name, priority) else count('damaged', 1) end
  end
  bulk('ZREM', delayed, ready)
  wake_revisits(at_most)
  local open = redis.call('ZRANGE', wait, '-inf', now_ms, 'BYSCORE', 'LIMIT', 0, 2 * at_most)
  load_hosts(open)
  for _, name in ipairs(open) do host_in_line(name, WAIT) end
  settle_all()
end

-- Milliseconds until something changes without a call: a lease expires or, if the job hands out
-- requests, a host becomes due, or a retry or revisit is due. -1: nothing will.
local function next_change(handing_out)
  local soonest = math.huge
  local moments = handing_out and { wait, delayed, lease } or { lease }
  if handing_out and limits.revisit == 1 then moments[4] = revisits end
  for _, key in ipairs(moments) do
    local head = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
    if head[2] then soonest = math.min(soonest, tonumber(head[2])) end
  end
  return soonest < math.huge and math.max(0, soonest - now_ms) or -1
end
