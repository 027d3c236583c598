--[[
revive: dead letters become pending again, with a clean record.

KEYS   dead     zset   fingerprint -> ms
       trouble  hash   fingerprint -> msgpack
       task     hash   fingerprint -> record
EACH   fp       text
REPLY  how many came back
COST   O(requests * log N)
]]
--@include once record commit
local answer = answered()
if answer then return answer end

local revived = 0
for at = EACH.start, #ARGV do
  local fp = ARGV[at]
  if redis.call('ZREM', dead, fp) == 1 then
    redis.call('HDEL', trouble, fp)
    local priority, name = unpack_record(redis.call('HGET', task, fp))
    enqueue(fp, name, priority)
    revived = revived + 1
  end
end
commit()
return remember(revived)
