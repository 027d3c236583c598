--[[
reopen: pages that are done and whose links are to be offered again, the least deep first. One
client at a time is given any, so that not all of them do the same; it is no more than that.

FLAGS  allow-oom
KEYS   reopening string the client that is at it; expires
ARGV   most     int    how many pages
       ttl_ms   int    how long others leave it to the caller
       token    text
REPLY  per page: fingerprint, depth, outlinks
COST   O(most * log N)
]]
--@include bulk depth
if count_to_reopen() == 0 then return {} end
local is_first = redis.call('SET', reopening, token, 'NX', 'PX', ttl_ms)
if not is_first and redis.call('GET', reopening) ~= token then return {} end

local below = '(' .. limits.max_depth
local fps = redis.call('ZRANGE', edge, '-inf', below, 'BYSCORE', 'LIMIT', 0, most)
local found, packed = bulk_read('HMGET', depths, fps), bulk_read('HMGET', outlinks, fps)
local reply = {}
for i, fp in ipairs(fps) do
  local at = 3 * i - 2
  reply[at], reply[at + 1], reply[at + 2] = fp, found[i] or '0', packed[i] or ''
end
return reply
