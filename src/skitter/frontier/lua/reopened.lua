--[[
reopened: record that the links of pages were offered again. A page to which a still shorter path
was found meanwhile stays reopenable.

FLAGS  allow-oom
KEYS   reopening string deleted, so that another client may continue
EACH   fp       text
       depth    text   from reopen.lua's reply
       rest     text   the score at which it waits for a higher limit; empty: all links were offered
REPLY  int    how many pages were given
COST   O(pages * log N)
]]
--@include depth
for at = EACH.start, #ARGV, EACH.stride do
  local fp, depth, rest = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  if (redis.call('HGET', depths, fp) or '0') == depth then
    if rest == '' then redis.call('ZREM', reopenable, fp) else redis.call('ZADD', reopenable, rest, fp) end
  end
end
redis.call('DEL', reopening)
return (#ARGV - EACH.start + 1) / EACH.stride
