--[[
trouble: what has gone wrong with a request so far. Only requests that had trouble have an entry; a
corrupt entry counts as none.

KEYS   trouble  hash   fingerprint -> msgpack of { failures, losses, alone, error, at, priority };
                       alone: how many of the losses were
       dead     zset   fingerprint -> ms
]]
--@include clock counters
local function is_number_or_nil(value)
  return value == nil or type(value) == 'number'
end

-- Returns nil if the entry is missing or corrupt.
local function unpack_trouble(packed)
  if not packed then return nil end
  local readable, entry = pcall(cmsgpack.unpack, packed)
  if readable and type(entry) == 'table' and type(entry.failures) == 'number'
    and type(entry.losses) == 'number' and is_number_or_nil(entry.priority)
    and is_number_or_nil(entry.alone) then return entry end
  count('damaged', 1)
end

local function trouble_of(fp)
  return unpack_trouble(redis.call('HGET', trouble, fp)) or { failures = 0, losses = 0 }
end

local function note_trouble(fp, entry, reason)
  entry.error, entry.at = reason, wall_ms
  redis.call('HSET', trouble, fp, cmsgpack.pack(entry))
end

-- The record stays in `task`, so that the dead letter can be read and revived.
local function bury(fp, entry, reason)
  note_trouble(fp, entry, reason)
  redis.call('ZADD', dead, wall_ms, fp)
end
