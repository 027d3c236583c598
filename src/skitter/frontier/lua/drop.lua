--[[
drop: remove dead letters. They stay seen, so that a link does not bring them back; or, if asked,
they are forgotten as if they had never been added.

FLAGS  allow-oom
KEYS   dead     zset   fingerprint -> ms
       trouble  hash   fingerprint -> msgpack
       task     hash   fingerprint -> record
ARGV   forget   int    1: not seen any more
EACH   fp       text
REPLY  how many were removed
COST   O(requests * log N)
]]
--@include once seen_exact
local answer = answered()
if answer then return answer end

local dropped = 0
for at = EACH.start, #ARGV do
  local fp = ARGV[at]
  if redis.call('ZREM', dead, fp) == 1 then
    redis.call('HDEL', trouble, fp)
    redis.call('HDEL', task, fp)
    if forget == 1 and not limits.blocks and forget_exact(fp) then
      count('seen', -1)
    else
      count('dropped', 1)
    end
    dropped = dropped + 1
  end
end
write_counters()
return remember(dropped)
