--[[
revisit: done pages that will be visited again. They keep their record, with the ETag and the like,
and count as done until they are due: docs/adr/0029-a-page-that-waits-for-a-visit-is-done.md. A page
that is gone becomes a dead letter. Loaders get an entry for a page that no longer has items.

KEYS   revisits zset   fingerprint of a done page -> ms of its next visit
       task     hash   fingerprint -> record
       items    stream what handlers yielded; n is -1 for a page that no longer has items
]]
--@include clock counters limits enqueue record later
local HOW = {
  new = 'complete', changed = 'complete', unchanged = 'complete', missing = 'complete', gone = 'bury',
}

local function learn_revisit(claim, said)
  if limits.revisit ~= 1 or HOW[said.how] ~= verb then return end
  count(said.how, 1)
  redis.call('HSET', task, claim.fp, said.record)
  if said.emptied then
    redis.call('XADD', items, '*', 'fp', claim.fp, 'n', -1, 'item', said.emptied)
  end
  if said.how == 'gone' then return end
  redis.call('ZADD', revisits, now_ms + said.after_ms, claim.fp)
  claim.stays = true
end

-- None are due if revisits were turned off.
local function count_due()
  return limits.revisit == 1 and redis.call('ZCOUNT', revisits, '-inf', now_ms) or 0
end

-- In ms; nil: no page will be visited again.
local function until_next_visit()
  local first = limits.revisit == 1 and redis.call('ZRANGE', revisits, 0, 0, 'WITHSCORES')[2]
  return first and math.max(0, first - now_ms)
end

-- If revisits are on: a page that is due becomes pending, and no longer counts as done.
local function wake_revisits(at_most)
  local ready = redis.call('ZRANGE', revisits, '-inf', now_ms, 'BYSCORE', 'LIMIT', 0, at_most)
  for i, record in ipairs(bulk_read('HMGET', task, ready)) do
    local priority, name = unpack_record(record or '')
    if name then
      local known = touch(name)
      if known.pages > 0 then known.pages = known.pages - 1 end -- 0: a rebuilt record
      count('done', -1)
      note_again()
      enqueue(ready[i], name, priority)
    else
      count('damaged', 1)
    end
  end
  bulk('ZREM', revisits, ready)
end
