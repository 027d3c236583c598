--[[
free: make URLs held in a trap pending again, as far as the budget of their shape has room.

KEYS   trapped  zset   fingerprint -> shape
       task     hash   fingerprint -> record
]]
--@include enqueue record
local AT_ONCE = 500

-- Those with a corrupt record stay, for the audit to report.
local function free(fps)
  local freed = {}
  for i, record in ipairs(bulk_read('HMGET', task, fps)) do
    local priority, name = unpack_record(record or '')
    if name then
      enqueue(fps[i], name, priority)
      freed[#freed + 1] = fps[i]
    end
  end
  bulk('ZREM', trapped, freed)
  return #freed
end

local function free_shape(number, room)
  if room <= 0 then return 0 end
  local limit = math.min(room, AT_ONCE)
  return free(redis.call('ZRANGE', trapped, number, number, 'BYSCORE', 'LIMIT', 0, limit))
end
