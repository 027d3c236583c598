--[[
free: make URLs held in a trap pending again, as far as the budget of their shape has room.

KEYS   trapped  zset   fingerprint -> shape
       task     hash   fingerprint -> record
]]
--@include enqueue record damaged
local AT_ONCE = 500
local UNKNOWN = '?' -- the host, which only the record tells

-- Those with a corrupt record are buried: they would keep the job from ending.
local function free(fps)
  local freed = {}
  for i, record in ipairs(bulk_read('HMGET', task, fps)) do
    local priority, name = unpack_record(record or '')
    if name then
      enqueue(fps[i], name, priority)
      freed[#freed + 1] = fps[i]
    else
      bury_damaged(fps[i], UNKNOWN, record)
    end
  end
  bulk('ZREM', trapped, fps)
  return #freed
end

local function free_shape(number, room)
  if room <= 0 then return 0 end
  local limit = math.min(room, AT_ONCE)
  return free(redis.call('ZRANGE', trapped, number, number, 'BYSCORE', 'LIMIT', 0, limit))
end
