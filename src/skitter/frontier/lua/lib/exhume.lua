--[[
exhume: take dead letters out of their grave. What becomes of them is the caller's business.

KEYS   dead     zset   fingerprint -> ms
       trouble  hash   fingerprint -> msgpack
]]
--@include bulk
-- Those of EACH that were dead, each once, and what is known of their trouble.
local function exhume()
  local fps = {}
  for at = EACH.start, #ARGV do
    if redis.call('ZREM', dead, ARGV[at]) == 1 then fps[#fps + 1] = ARGV[at] end
  end
  local troubles = bulk_read('HMGET', trouble, fps)
  bulk('HDEL', trouble, fps)
  return fps, troubles
end
