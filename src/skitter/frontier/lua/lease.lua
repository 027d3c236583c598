--[[
lease: hand out up to `limit` requests that may be fetched now: best priority first, fair to hosts.

FLAGS  allow-oom
KEYS   lease    zset   fingerprint -> ms
       holder   hash   fingerprint -> token
       task     hash   fingerprint -> record
       trouble  hash   fingerprint -> msgpack
       sessions string exists if there is a pool of sessions
ARGV   limit    int    at most this many
       ttl_ms   int    how long the leases last
       company  int    1: the caller works on several requests at once (reap.lua)
       vouched_ms int  the job's time by the clock of this client: steady.lua
       token    text   proof of the lease; the second in which it was taken is appended
REPLY  list   state, ms until something may change (-1: nothing will), token, short (1: only this
       shard's share of max_pages held more back), born (if it changed, clear all caches), pace
       (leasing.lua), pages to reopen (-1: the job keeps no depths), sessions (1: there are some),
       the job's time in ms, hosts with files that may be asked for, then per request: fingerprint, record, trouble or empty, depth if kept
COST   O(limit * log N), regardless of the number of hosts and URLs
]]
--@include answers handing_out catch_up reap leasing take enqueue budget daily depth company
local proof = token .. string.format('.%d', wall_ms / 1000) .. (company == 1 and IN_COMPANY or '')
local function hand_out(fps)
  local expiries, holders, until_ms = {}, {}, string.format('%.0f', now_ms + ttl_ms)
  for i = 1, #fps do
    expiries[2 * i - 1], expiries[2 * i] = until_ms, fps[i]
    holders[2 * i - 1], holders[2 * i] = fps[i], proof
  end
  bulk('ZADD', lease, expiries)
  bulk('HSET', holder, holders)
end

-- A repeated call gets its first answer again, without the leases it has lost since.
local function still_ours(fps)
  local ours = {}
  for i, held_by in ipairs(bulk_read('HMGET', holder, fps)) do
    if held_by and string.sub(held_by, 1, #token + 1) == token .. '.' then
      ours[#ours + 1], proof = fps[i], held_by
    end
  end
  return ours
end

local function pages_left()
  if limits.max_pages == math.huge then return math.huge end
  return (limits.shards and share() or limits.max_pages) - pages_used()
end

catch_up() keep_steady() -- first, as they may correct now_ms
local first = answered()
local fps, records = first and still_ours(first), nil
if not fps then
  reap(limit) -- even if nothing is handed out: a paused job takes back leases too
  fps = {}
  if handing_out then
    wake(limit) -- before taking, so that what has become due competes by priority
    fps, records = sift(take(math.min(limit, pages_left(), left_today())))
    hand_out(fps)
  end
  commit()
  remember(fps) -- not the records: a repeat reads them again
end

local short = handing_out and limits.shards and #fps < limit and pages_left() <= 0
  and redis.call('ZCARD', due_in(lane)) > 0
local changes_in_ms = next_change(handing_out)
if left_today() <= 0 then -- -1: nothing else will change
  local soonest = changes_in_ms < 0 and math.huge or changes_in_ms
  changes_in_ms = math.min(soonest, until_tomorrow_ms())
end
local to_reopen = handing_out and count_to_reopen() or 0
records = records or bulk_read('HMGET', task, fps)
local reply = {
  limits.state, changes_in_ms, proof, short and 1 or 0, limits.born or '',
  pace(records, first), keeps_depths and to_reopen or -1, redis.call('EXISTS', sessions), now_ms,
  redis.call('ZCARD', due_file),
}
local troubles = redis.call('EXISTS', trouble) == 1 and bulk_read('HMGET', trouble, fps) or {}
local found = keeps_depths and bulk_read('HMGET', depths, fps)
local width = found and 4 or 3
for i = 1, #fps do
  local at = 10 + width * (i - 1)
  reply[at + 1], reply[at + 2], reply[at + 3] = fps[i], records[i] or '', troubles[i] or ''
  if found then reply[at + 4] = found[i] or '' end
end
return reply
