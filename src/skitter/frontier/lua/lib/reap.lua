--[[
reap: requests whose lease ran out become pending again; one that was lost too often is dead.
A handler that kills its process must not take the whole fleet with it, one worker at a time.

KEYS   lease    zset   fingerprint -> ms
       holder   hash   fingerprint -> token
       task     hash   fingerprint -> record
]]
--@include enqueue record trouble
local function lose(fp)
  local priority, name = unpack_record(redis.call('HGET', task, fp) or '')
  if not name then return count('damaged', 1) end -- the audit tells; others must not wait for it
  local entry, known = trouble_of(fp), host(name)
  if known.in_flight > 0 then known.in_flight = known.in_flight - 1 end -- or it was begun anew
  known.asked_at = now_ms -- nobody knows when its request left, or whether it does now
  entry.losses = entry.losses + 1
  count('lost', 1)
  if entry.losses >= limits.max_losses then
    bury(fp, entry, 'its worker vanished ' .. entry.losses .. ' times')
  else
    note_trouble(fp, entry, 'its worker vanished')
    enqueue(fp, name, priority)
  end
end

local function lose_all(fps)
  for _, fp in ipairs(fps) do lose(fp) end
  bulk('ZREM', lease, fps)
  bulk('HDEL', holder, fps)
end

local function reap(at_most)
  local expired = redis.call('ZRANGE', lease, '-inf', now_ms, 'BYSCORE', 'LIMIT', 0, at_most)
  lose_all(expired)
  return #expired
end
