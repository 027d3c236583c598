--[[
measure: add to the figures of a job: what was counted and timed in the last seconds.

FLAGS  allow-oom
KEYS   tables   hash   member -> `ok failed bytes ms`: step/slot/name
ARGV   members  int    of a table that are kept apart
EACH   kind     text   counts, timings or tables
       name     text
       packed   bytes  msgpack: the number; us, bucket, count, ...; or member, ok, failed, ...
REPLY  int    how many rows were given
COST   O(rows), and per row that is a table at most O(members)
]]
--@include once slots rows
local HOUR_S, WEEK_S = 3600, 604800

local function add_table(name, flat)
  for _, step in ipairs({ HOUR_S, 0 }) do -- 0: all of it
    local key = place(tables, step, 1, name)
    add_rows(key, flat, members)
    redis.call('EXPIRE', key, WEEK_S + step)
  end
end

local add = { counts = add_count, timings = add_timing, tables = add_table }
for at = EACH.start, #ARGV, EACH.stride do
  add[ARGV[at]](ARGV[at + 1], cmsgpack.unpack(ARGV[at + 2]))
end
return remember((#ARGV - EACH.start + 1) / EACH.stride)
