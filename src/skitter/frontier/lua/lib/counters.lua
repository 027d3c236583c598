--[[
counters: collect changes during a script, and write each counter once.

KEYS   stats    hash   counters
]]
local changes, before = {}, nil

local function as_int(number)
  return string.format('%.0f', number)
end

local function count(counter, by)
  changes[counter] = (changes[counter] or 0) + by
end

-- Reads all of them: there are a few dozen, and a script needs several.
local function read_before(counter)
  if not before then
    local flat = redis.call('HGETALL', stats)
    before = {}
    for i = 1, #flat, 2 do before[flat[i]] = flat[i + 1] end
  end
  return tonumber(before[counter]) or 0
end

local function read_counter(counter)
  return read_before(counter) + (changes[counter] or 0)
end

local function write_counters()
  local sums = {}
  for counter, by in pairs(changes) do
    if by ~= 0 then
      local sum = read_before(counter) + by
      before[counter] = sum
      sums[#sums + 1], sums[#sums + 2] = counter, as_int(sum)
    end
  end
  if #sums > 0 then redis.call('HSET', stats, unpack(sums)) end
  changes = {}
end
