--[[
newest: a record of what came last, in two hashes. When the new one has half of what is kept, it
becomes the old one, and the old one goes: no order has to be kept, and nothing is looked through.
]]
--@include bulk
local function keep_newest(family, pairs, keep)
  if #pairs == 0 then return end
  local new, old = family .. 'new', family .. 'old'
  bulk('HSET', new, pairs)
  if redis.call('HLEN', new) * 2 < keep then return end
  redis.call('UNLINK', old)
  redis.call('RENAME', new, old)
end
