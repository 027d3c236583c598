--[[
leasing: what a lease needs besides taking: sound records, woken hosts, the pace of each.

pace: when the leased requests may leave: empty if no host wants a delay, otherwise per request
`moment_ms delay_ms slack_ms`: its turn, the host's delay, and how late it may leave without asking
(0: it is alone at its host). In a repeated call, a host that allows several in flight may have
given its turn to another request since: moment_ms is then 0.

sift: bury requests whose record is missing or corrupt, here where the queue still tells their host.
A record that names a host passes: the client checks its body.

wake: make delayed requests pending and waiting hosts due, once their time has come.

KEYS   task     hash   fingerprint -> record
       delayed  zset   fingerprint -> ms
       lease    zset   fingerprint -> ms
]]
--@include host limits record delay lane bulk enqueue
--@late damaged revisit
local function wants_delay()
  if limits.delay_ms > 0 then return true end
  for _, known in pairs(loaded) do
    if known.own ~= NONE and delay_of(known) > 0 then return true end
  end
  return false
end

local function pace(records, is_repeated)
  if next(loaded) and not wants_delay() then return '' end -- a repeated call has loaded none yet
  local names, words = {}, {}
  for i, record in ipairs(records) do names[i] = clock_name(record and host_of(record) or '') end
  load_hosts(names)
  if not wants_delay() then return '' end
  for i, name in ipairs(names) do
    local known = peek(name)
    local delay_ms = delay_of(known)
    local slack_ms = slack_of(known, delay_ms)
    local moment_ms = is_repeated and slack_ms > 0 and 0 or known.asked_at
    words[i] = string.format('%d %d %d', moment_ms, delay_ms, slack_ms)
  end
  return table.concat(words, ' ')
end

local find = string.find

-- The fingerprints that can be handed out, and their records in the same order.
local function sift(fps, from)
  local records = bulk_read('HMGET', task, fps)
  for i = 1, #fps do
    local record = records[i]
    if not record or not find(record, SOUND) then return without_damaged(fps, from, records) end
  end
  return fps, records
end

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
  if limits.revisit == 1 then wake_revisits(at_most) end
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
