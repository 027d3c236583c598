--[[
revive: make dead letters pending again, with a clean record and their original priority.

KEYS   task     hash   fingerprint -> record
EACH   fp       text
REPLY  int    how many were revived
COST   O(requests * log N)
]]
--@include once exhume record trouble enqueue
local fps, troubles = exhume()
for i, record in ipairs(bulk_read('HMGET', task, fps)) do
  local priority, name, body = unpack_record(record)
  local entry = unpack_trouble(troubles[i])
  local first = entry and entry.priority
  if first and first ~= priority then
    priority = first
    redis.call('HSET', task, fps[i], pack_record(priority, name, body))
  end
  enqueue(fps[i], name, priority)
end
commit()
return remember(#fps)
