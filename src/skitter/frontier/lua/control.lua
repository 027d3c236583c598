--[[
control: set the desired state or limits of the job. An empty value removes the limit. A job that
is gone, or going, is not brought back in passing. In a job of many shards a new max_pages is shared
out anew: the shard keeps what it uses.

FLAGS  allow-oom
KEYS   control  hash   state and limits
ARGV   create   int    1: make the job if it does not exist
EACH   field    text
       value    any
REPLY  int    how many fields were given
COST   O(fields)
]]
--@include budget
local state = redis.call('HGET', control, 'state')
local purging = ARGV[EACH.start] == 'state' and ARGV[EACH.start + 1] == 'purge'
if (not state and create == 0) or (state == 'purge' and not purging) then
  error({ err = 'GONE ' .. control })
end

local limit_is_new = false
for at = EACH.start, #ARGV, EACH.stride do
  limit_is_new = limit_is_new or ARGV[at] == 'max_pages'
  if ARGV[at + 1] == '' then
    redis.call('HDEL', control, ARGV[at])
  elseif ARGV[at] == 'born' then
    redis.call('HSETNX', control, 'born', ARGV[at + 1]) -- once in a job's life
  else
    redis.call('HSET', control, ARGV[at], ARGV[at + 1])
    if ARGV[at] == 'max_depth' then redis.call('HSET', control, 'depths', 1) end -- for good
  end
end
if limit_is_new and redis.call('HEXISTS', control, 'shards') == 1 then
  balance(0)
  write_counters()
end
return (#ARGV - EACH.start + 1) / EACH.stride
