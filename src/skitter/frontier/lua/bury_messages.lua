--[[
bury_messages: turn feed messages that cannot be crawled into dead letters, with their text.

FLAGS  allow-oom
KEYS   task     hash   fingerprint -> record
EACH   fp       text
       host     text   any name without spaces; nothing is fetched from it
       body     bytes  msgpack of a request that holds the text
       reason   text
REPLY  ints   a code per message: BURIED, or SEEN if the same one was rejected before
COST   O(messages * log N)
]]
--@include once accept trouble enqueue
local codes = {}
for at = EACH.start, #ARGV, EACH.stride do
  local fp, code = ARGV[at], SEEN
  if admit(fp) then
    redis.call('HSET', task, fp, pack_record(0, ARGV[at + 1], ARGV[at + 2]))
    bury(fp, { failures = 1, losses = 0 }, ARGV[at + 3])
    count('seen', 1)
    code = BURIED
  end
  codes[#codes + 1] = code
end
write_accepted()
commit()
return remember(codes)
