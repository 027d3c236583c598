--[[
increment: add to the daily counters and timings that users keep in their own code. They belong to
no job.

FLAGS  allow-oom
KEYS   daily    hash   name, newline, tags -> number; by day
       durations hash  bucket -> count, `us`: their sum; day/name
       recent   hash   verb -> number of this client's last call
ARGV   seq      int    the client's number for this call
       limit    int    distinct names and tags per day; the rest are summed under an empty name
       keep_s   int    how long a day is kept
EACH   name     text
       tags     text
       by       text   a number
       packed   bytes  msgpack of durations: us, bucket, count, ...; empty: none
REPLY  int    how many rows were given
COST   O(rows)
]]
--@include fleet_clock
local REMEMBER_MS = 600000
local day = math.floor(now_ms / 86400000)
local totals = daily .. day

local function row_for(name, tags)
  local row = name .. '\n' .. tags
  local is_known = redis.call('HEXISTS', totals, row) == 1
  return (is_known or redis.call('HLEN', totals) < limit) and row or '\n'
end

local function add_durations(name, flat)
  local key = durations .. day .. '/' .. name
  redis.call('HINCRBY', key, 'us', string.format('%.0f', flat[1]))
  for i = 2, #flat, 2 do redis.call('HINCRBY', key, flat[i], flat[i + 1]) end
  redis.call('EXPIRE', key, keep_s)
end

local rows = (#ARGV - EACH.start + 1) / EACH.stride
local last = tonumber(string.match(redis.call('HGET', recent, verb) or '', '^%d+')) or 0
if last > seq then error({ err = 'STALE this call was overtaken by a later one' }) end
if last == seq then return rows end -- a repeat adds nothing
for at = EACH.start, #ARGV, EACH.stride do
  local name, row = ARGV[at], row_for(ARGV[at], ARGV[at + 1])
  redis.call('HINCRBYFLOAT', totals, row, ARGV[at + 2])
  if ARGV[at + 3] ~= '' and row ~= '\n' then add_durations(name, cmsgpack.unpack(ARGV[at + 3])) end
end
redis.call('EXPIRE', totals, keep_s)
redis.call('HSET', recent, verb, string.format('%d ', seq) .. cmsgpack.pack(rows))
redis.call('PEXPIRE', recent, REMEMBER_MS)
return rows
