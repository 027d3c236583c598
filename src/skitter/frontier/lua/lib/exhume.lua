--[[
exhume: remove dead letters from `dead`; the caller decides what happens to them.

KEYS   dead     zset   fingerprint -> ms
       trouble  hash   fingerprint -> msgpack
]]
--@include bulk
-- The fingerprints of EACH that were dead, without duplicates, and their entries in `trouble`.
local function exhume()
  local fps = {}
  for at = EACH.start, #ARGV do
    if redis.call('ZREM', dead, ARGV[at]) == 1 then fps[#fps + 1] = ARGV[at] end
  end
  local troubles = bulk_read('HMGET', trouble, fps)
  bulk('HDEL', trouble, fps)
  return fps, troubles
end
