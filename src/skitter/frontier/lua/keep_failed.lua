--[[
keep_failed: keep pages that failed, the first of each kind, until they are handled again.

KEYS   failed     hash fingerprint -> msgpack of the page
       failed_of  hash fingerprint -> kind
ARGV   most       int  pages of a kind
       max_bytes  int  of all pages
EACH   fp         text
       kind       text
       page       bytes
REPLY  ints  1 per page that is kept, or was
COST   O(pages kept)
]]
--@include once
local counts, size, codes = {}, 0, {}
local known = redis.call('HGETALL', failed_of)
for i = 1, #known, 2 do
  local fp, kind = known[i], known[i + 1]
  local length = redis.call('HSTRLEN', failed, fp)
  if length == 0 then redis.call('HDEL', failed_of, fp) end -- who forgot it was killed half-way
  if length > 0 then counts[kind], size = (counts[kind] or 0) + 1, size + length end
end
for at = EACH.start, #ARGV, EACH.stride do
  local fp, kind, page = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local is_known = redis.call('HEXISTS', failed, fp) == 1
  local fits = (counts[kind] or 0) < most and size + #page <= max_bytes
  if fits and not is_known then
    redis.call('HSET', failed, fp, page)
    redis.call('HSET', failed_of, fp, kind)
    counts[kind], size = (counts[kind] or 0) + 1, size + #page
  end
  codes[#codes + 1] = (fits or is_known) and 1 or 0
end
return remember(codes)
