--[[
lease: hand out up to `limit` requests that may be fetched now, best first, fair among hosts.

FLAGS  allow-oom
KEYS   lease    zset   fingerprint -> ms
       holder   hash   fingerprint -> token
       task     hash   fingerprint -> record
       trouble  hash   fingerprint -> msgpack
       items    stream results that no loader has taken yet
ARGV   limit    int    how many at the most
       ttl_ms   int    how long they are ours
       token    text   proof of the lease
REPLY  state, ms until something may change (-1: nothing will), token, then per request:
       fingerprint, record, trouble or empty
COST   O(limit * log N), whatever the number of hosts and URLs
]]
--@include once reap wake take commit
local function hand_out(fps)
  local expiries, holders = {}, {}
  for i, fp in ipairs(fps) do
    expiries[2 * i - 1], expiries[2 * i] = now_ms + ttl_ms, fp
    holders[2 * i - 1], holders[2 * i] = fp, token
  end
  bulk('ZADD', lease, expiries)
  bulk('HSET', holder, holders)
end

-- A repeated call gets what of its first answer is still its own.
local function still_ours(fps)
  local ours = {}
  for i, held_by in ipairs(bulk_read('HMGET', holder, fps)) do
    if held_by == token then ours[#ours + 1] = fps[i] end
  end
  return ours
end

-- A slow database holds the workers back; it does not fill the server.
local held_back = limits.max_items < math.huge and redis.call('XLEN', items) >= limits.max_items
local handing_out = limits.running and not held_back

local first = answered()
local fps = first and still_ours(first)
if not fps then
  reap(limit)
  fps = {}
  if handing_out then
    wake(limit)
    local pages_left = limits.max_pages - read_counter('done') - redis.call('ZCARD', lease)
    fps = take(math.min(limit, pages_left))
    hand_out(fps)
  end
  commit()
  remember(fps)
end

local reply = { limits.state, next_change(handing_out), token }
local records = bulk_read('HMGET', task, fps)
local troubles = redis.call('EXISTS', trouble) == 1 and bulk_read('HMGET', trouble, fps) or {}
for i, fp in ipairs(fps) do
  local at = 3 * i
  reply[at + 1], reply[at + 2], reply[at + 3] = fp, records[i] or '', troubles[i] or ''
end
return reply
