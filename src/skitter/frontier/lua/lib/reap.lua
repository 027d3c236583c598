--[[
reap: take back what is leased for too long.

KEYS   lease    zset   fingerprint -> ms
]]
--@include clock
--@late losses slots
local function reap(at_most)
  local expired = redis.call('ZRANGE', lease, '-inf', now_ms, 'BYSCORE', 'LIMIT', 0, at_most)
  if #expired > 0 then
    expect_losses()
    lose_all(expired, {})
    add_count('lost', #expired)
  end
  return #expired
end
