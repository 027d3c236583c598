--[[
forget: pages that are done, as if they had never been added: a link or a push brings them again.

FLAGS  allow-oom
KEYS   task     hash   fingerprint -> record
       revisits zset   fingerprint of a done page -> ms of its next visit
       round    zset   fingerprint -> ms of the last round that it was offered in
       dead     zset   fingerprint -> ms
       depths   hash   fingerprint -> links from a seed
       outlinks hash   fingerprint of a done page -> its links
       reopenable zset fingerprint of a done page -> depth
       pages    hash   two: fingerprint -> outcome
EACH   fp       text
       host     text   politeness key
REPLY  ints   a code per page: DONE, or LOST if it was not: unknown, waiting, in flight or dead
COST   O(pages * log N)
]]
--@include once seen undo enqueue
local function is_done(fp)
  if not has_seen(fp) or redis.call('ZSCORE', dead, fp) then return false end
  return redis.call('ZREM', revisits, fp) == 1 or redis.call('HEXISTS', task, fp) == 0
end

local function forget(fp, name)
  if not is_done(fp) or not forget_seen(fp) then return LOST end
  for _, key in ipairs({ task, depths, outlinks, pages .. 'new', pages .. 'old' }) do
    redis.call('HDEL', key, fp)
  end
  for _, key in ipairs({ round, reopenable }) do redis.call('ZREM', key, fp) end
  take_off_done(name)
  count('seen', -1)
  return DONE
end

local codes = {}
for at = EACH.start, #ARGV, EACH.stride do codes[#codes + 1] = forget(ARGV[at], ARGV[at + 1]) end
-- Workers cache the links they added lately. A new `born` makes them clear that cache.
redis.call('HINCRBY', control, 'born', 1)
commit()
return remember(codes)
