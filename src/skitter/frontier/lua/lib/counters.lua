--[[
counters: add up changes in a script, write each counter once.

KEYS   stats    hash   counters
]]
local changes = {}

local function count(counter, by)
  changes[counter] = (changes[counter] or 0) + by
end

local function read_counter(counter)
  return (tonumber(redis.call('HGET', stats, counter)) or 0) + (changes[counter] or 0)
end

local function write_counters()
  for counter, by in pairs(changes) do
    if by ~= 0 then redis.call('HINCRBY', stats, counter, by) end
  end
  changes = {}
end
