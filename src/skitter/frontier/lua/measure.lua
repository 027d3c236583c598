--[[
measure: add to the figures of a job: what was counted and timed in the last seconds.

FLAGS  allow-oom
KEYS   counts   string slots of 40 bits, side by side: step/chunk/name
       timings  hash   bucket -> how many; `us`: all of them together: step/slot/name
       tables   hash   member -> `ok failed bytes ms`: step/slot/name
ARGV   grains   bytes  msgpack: kind -> {step in s, kept for s}, ...
       slots    int    of counters in a key
       members  int    of a table that are kept apart
EACH   kind     text   counts, timings or tables
       name     text
       packed   bytes  msgpack: the number; us, bucket, count, ...; or member, ok, failed, ...
REPLY  int    how many rows were given
COST   O(rows), and per row that is a table at most O(members)
]]
--@include once clock rows
local second = math.floor(wall_ms / 1000)
local add = {}

local function place(key, step, width, name)
  return string.format('%s%d/%d/%s', key, step, math.floor(second / (step * width)), name)
end

function add.counts(name, step, keep, by)
  local key, slot = place(counts, step, slots, name), math.floor(second / step) % slots
  redis.call('BITFIELD', key, 'OVERFLOW', 'SAT', 'INCRBY', 'u40', '#' .. slot, as_int(by))
  redis.call('EXPIRE', key, keep + step * slots)
end

function add.timings(name, step, keep, flat)
  local key = place(timings, step, 1, name)
  redis.call('HINCRBY', key, 'us', as_int(flat[1]))
  for i = 2, #flat, 2 do redis.call('HINCRBY', key, flat[i], flat[i + 1]) end
  redis.call('EXPIRE', key, keep + step)
end

function add.tables(name, step, keep, flat)
  local key = place(tables, step, 1, name)
  add_rows(key, flat, members)
  redis.call('EXPIRE', key, keep + step)
end

local of_kind = cmsgpack.unpack(grains)
for at = EACH.start, #ARGV, EACH.stride do
  local kind, name, value = ARGV[at], ARGV[at + 1], cmsgpack.unpack(ARGV[at + 2])
  for _, grain in ipairs(of_kind[kind]) do add[kind](name, grain[1], grain[2], value) end
end
return remember((#ARGV - EACH.start + 1) / EACH.stride)
