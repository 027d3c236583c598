--[[
measure: add what a worker counted and timed in the last seconds to the job's metrics.

FLAGS  allow-oom
KEYS   tables   hash   member -> `ok failed bytes ms ...`: step/slot/name
ARGV   members  int    members a table lists separately
EACH   kind     text   counts, timings or tables
       name     text
       packed   bytes  msgpack: the number; us, bucket, count, ...; or member, figures, ...
REPLY  int    how many rows were given
COST   O(rows), plus at most O(members) for each row that is a table
]]
--@include once slots rows
local TABLES = { { 3600, 2 * 86400 }, { 0, 604800 } } -- step in s, kept for s; 0: one slot for all

local function add_table(name, flat)
  for _, grain in ipairs(TABLES) do
    local key = place(tables, grain[1], 1, name)
    add_rows(key, flat, members)
    redis.call('EXPIRE', key, grain[1] + grain[2])
  end
end

local add = { counts = add_count, timings = add_timing, tables = add_table }
for at = EACH.start, #ARGV, EACH.stride do
  add[ARGV[at]](ARGV[at + 1], cmsgpack.unpack(ARGV[at + 2]))
end
return remember((#ARGV - EACH.start + 1) / EACH.stride)
