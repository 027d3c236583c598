--[[
retry: end leases that failed. Each request is retried later, at a lower priority; after its last
retry it is buried.

FLAGS  allow-oom
KEYS   delayed  zset   fingerprint -> ms
EACH   fp       text
       token    text
       after_ms int    when to try again
       error    text   what went wrong
       feedback bytes  feedback.lua
REPLY  ints   a code per lease: RETRIED, BURIED or LOST
COST   O(leases * log N)
]]
--@include end_each trouble feedback
local LOWEST = -1000

local function fail(claim)
  local entry, reason = trouble_of(claim.fp), ARGV[claim.at + 3]
  local priority, name, body = unpack_record(claim.record)
  entry.failures = entry.failures + 1
  entry.priority = entry.priority or priority -- the original one, for revive.lua
  learn(claim, ARGV[claim.at + 4])
  if entry.failures > limits.max_retries then
    bury(claim.fp, entry, reason)
    return BURIED
  end
  note_trouble(claim.fp, entry, reason)
  redis.call('HSET', task, claim.fp, pack_record(math.max(LOWEST, priority - 1), name, body))
  redis.call('ZADD', delayed, now_ms + tonumber(ARGV[claim.at + 2]), claim.fp)
  count('retried', 1)
  return RETRIED
end

expect('zset', delayed, dead)
expect('hash', trouble, pages)
return end_each(fail)
