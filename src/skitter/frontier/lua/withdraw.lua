--[[
withdraw: turn requests that wait for their turn or for a retry into dead letters, as nobody wants
them any more. One that is in flight goes on.

FLAGS  allow-oom
KEYS   delayed  zset   fingerprint -> ms
       task     hash   fingerprint -> record
EACH   fp       text
       reason   text
REPLY  ints   a code per request: BURIED, or LOST if it does not wait
COST   O(requests * log N)
]]
--@include once trouble record enqueue
local function take_out(fp)
  local name = host_of(redis.call('HGET', task, fp) or '')
  if not name then return false end
  if redis.call('ZREM', delayed, fp) == 1 then return true end
  if redis.pcall('ZREM', queue .. name, fp) ~= 1 then return false end
  host(name).tied = 0 -- it may have been the best of its queue
  count('pending', -1)
  return true
end

local codes = {}
for at = EACH.start, #ARGV, EACH.stride do
  local fp, is_out = ARGV[at], take_out(ARGV[at])
  if is_out then bury(fp, trouble_of(fp), ARGV[at + 1]) end
  codes[#codes + 1] = is_out and BURIED or LOST
end
commit()
return remember(codes)
