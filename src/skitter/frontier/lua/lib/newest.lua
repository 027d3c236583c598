--[[
newest: a record of what came last, in two hashes. When the new one has half of what is kept, it
becomes the old one, and the old one goes: no order has to be kept, and nothing is looked through.
]]
local function keep_newest(family, fp, packed, keep)
  local new = family .. 'new'
  redis.call('HSET', new, fp, packed)
  if redis.call('HLEN', new) * 2 < keep then return end
  redis.call('UNLINK', family .. 'old')
  redis.call('RENAME', new, family .. 'old')
end
