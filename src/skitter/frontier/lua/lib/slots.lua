--[[
slots: metrics over time: counters in slots, durations in logarithmic buckets. observe/metrics.py and
observe/metrics.py repeat the steps and retention times below.

A metric must never stop a crawl: a key of the wrong type is left alone.

KEYS   totals   hash   counter -> sum; `page_s`: when a page was last done
       counts   string slots of 40 bits: step/chunk/name
       timings  hash   bucket -> count; `us`: their sum: step/slot/name
]]
--@include clock counters
local SLOTS = 360
local COUNTED = { { 10, 86400 }, { 60, 604800 } } -- step in s, kept for s
local TIMED = { { 60, 86400 }, { 3600, 604800 }, { 0, 604800 } } -- 0: one slot for all
local second = math.floor(wall_ms / 1000)

local function place(key, step, width, name)
  local slot = step == 0 and 0 or math.floor(second / (step * width))
  return string.format('%s%d/%d/%s', key, step, slot, name)
end

local function add_count(name, by)
  for _, grain in ipairs(COUNTED) do
    local step, keep_s = grain[1], grain[2]
    local key, slot = place(counts, step, SLOTS, name), math.floor(second / step) % SLOTS
    redis.pcall('BITFIELD', key, 'OVERFLOW', 'SAT', 'INCRBY', 'u40', '#' .. slot, as_int(by))
    redis.call('EXPIRE', key, keep_s + step * SLOTS)
  end
  redis.pcall('HINCRBY', totals, name, as_int(by))
  if name == 'pages' then redis.pcall('HSET', totals, 'page_s', as_int(second)) end
  redis.call('EXPIRE', totals, COUNTED[2][2])
end

-- us, bucket, count, bucket, count, ...
local function add_timing(name, flat)
  for _, grain in ipairs(TIMED) do
    local key = place(timings, grain[1], 1, name)
    redis.pcall('HINCRBY', key, 'us', as_int(flat[1]))
    for i = 2, #flat, 2 do redis.pcall('HINCRBY', key, flat[i], flat[i + 1]) end
    redis.call('EXPIRE', key, grain[1] + grain[2])
  end
end

local function bucket_of(ms)
  if ms <= 1 / 16 then return -64 end
  return math.min(384, math.ceil(math.log(ms) / math.log(2) * 16))
end
