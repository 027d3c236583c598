--[[
newest: keep the latest entries, in two hashes. When `new` holds half of `keep`, it replaces `old`:
that needs neither an order nor a scan.
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
