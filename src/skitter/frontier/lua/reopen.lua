--[[
reopen: read finished pages whose links have to be offered again, the shallowest first. Only one
client at a time gets any. That merely saves work: offering links twice does no harm.

FLAGS  allow-oom
KEYS   reopening string the client at work; expires
ARGV   limit    int    at most this many pages
       max_bytes int   the most bytes of outlinks in total; a single page may exceed it
       ttl_ms   int    how long other clients get none
       token    text
REPLY  list   per page: fingerprint, depth, outlinks
COST   O(limit * log N)
]]
--@include depth
if count_to_reopen() == 0 then return {} end
local is_first = redis.call('SET', reopening, token, 'NX', 'PX', ttl_ms)
if not is_first and redis.call('GET', reopening) ~= token then return {} end

local below = '(' .. limits.max_depth
local fps = redis.call('ZRANGE', reopenable, '-inf', below, 'BYSCORE', 'LIMIT', 0, limit)
local reply, size_bytes = {}, 0
for i, fp in ipairs(fps) do
  size_bytes = size_bytes + redis.call('HSTRLEN', outlinks, fp)
  if i > 1 and size_bytes > max_bytes then break end
  local at = 3 * i - 2
  reply[at], reply[at + 1] = fp, redis.call('HGET', depths, fp) or '0'
  reply[at + 2] = redis.call('HGET', outlinks, fp) or ''
end
return reply
