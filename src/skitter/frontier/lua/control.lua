--[[
control: set the desired state or limits of the job. An empty value removes a limit. It does not
recreate a job that was purged or is being purged. With several shards, a new max_pages makes each
shard cede all it has not used, so that the new limit can be shared out.

FLAGS  allow-oom
KEYS   control  hash   state and limits
ARGV   create   int    1: create the job if it does not exist
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
    redis.call('HSETNX', control, 'born', ARGV[at + 1]) -- set once in a job's life
  else
    redis.call('HSET', control, ARGV[at], ARGV[at + 1])
    -- Permanent: a page done while the job keeps no depths could never be reopened.
    if ARGV[at] == 'max_depth' then redis.call('HSET', control, 'depths', 1) end
  end
end
if limit_is_new and redis.call('HEXISTS', control, 'shards') == 1 then
  balance(0)
  write_counters()
end
return (#ARGV - EACH.start + 1) / EACH.stride
