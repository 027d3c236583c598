--[[
trouble: what went wrong with a request so far. Only requests that had trouble have an entry.

KEYS   trouble  hash   fingerprint -> msgpack of { failures, losses, error, at, priority }
       dead     zset   fingerprint -> ms
]]
--@include clock counters
local function trouble_of(fp)
  local packed = redis.call('HGET', trouble, fp)
  return packed and cmsgpack.unpack(packed) or { failures = 0, losses = 0 }
end

local function note_trouble(fp, entry, reason)
  entry.error, entry.at = reason, now_ms
  redis.call('HSET', trouble, fp, cmsgpack.pack(entry))
end

-- The body stays in `task`: a dead letter can be read, and brought back.
local function bury(fp, entry, reason)
  note_trouble(fp, entry, reason)
  redis.call('ZADD', dead, now_ms, fp)
end
