--[[
release: hand leases back unfinished, because the worker stops or the work has to wait. It counts
neither as a failure nor as a loss, and the request keeps its priority.

FLAGS  allow-oom
KEYS   delayed  zset   fingerprint -> ms
EACH   fp       text
       token    text
       after_ms int    0: pending at once
REPLY  ints   a code per lease: RELEASED or LOST
COST   O(leases * log N)
]]
--@include end_each
local function give_back(claim)
  local after_ms = tonumber(ARGV[claim.at + 2])
  if after_ms > 0 then
    redis.call('ZADD', delayed, now_ms + after_ms, claim.fp)
  else
    local priority, name = unpack_record(claim.record)
    enqueue(claim.fp, name, priority)
  end
  return RELEASED
end

expect('zset', delayed)
return end_each(give_back)
