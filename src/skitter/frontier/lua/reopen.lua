--[[
reopen: pages that are done and whose links are to be offered again, the least deep first. One
client at a time is given any, so that not all of them do the same; it is no more than that.

FLAGS  allow-oom
KEYS   reopening string the client that is at it; expires
ARGV   most     int    how many pages
       most_bytes int  how long their outlinks are together, unless it is one page
       ttl_ms   int    how long others leave it to the caller
       token    text
REPLY  list   per page: fingerprint, depth, outlinks
COST   O(most * log N)
]]
--@include depth
if count_to_reopen() == 0 then return {} end
local is_first = redis.call('SET', reopening, token, 'NX', 'PX', ttl_ms)
if not is_first and redis.call('GET', reopening) ~= token then return {} end

local below = '(' .. limits.max_depth
local fps = redis.call('ZRANGE', reopenable, '-inf', below, 'BYSCORE', 'LIMIT', 0, most)
local reply, size_bytes = {}, 0
for i, fp in ipairs(fps) do
  size_bytes = size_bytes + redis.call('HSTRLEN', outlinks, fp)
  if i > 1 and size_bytes > most_bytes then break end
  local at = 3 * i - 2
  reply[at], reply[at + 1] = fp, redis.call('HGET', depths, fp) or '0'
  reply[at + 2] = redis.call('HGET', outlinks, fp) or ''
end
return reply
