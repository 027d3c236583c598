--[[
audit_sums: compare the counters with sums over all hosts, leases and buckets, atomically. Too many
of them would block the server: then the reply is empty.

FLAGS  no-writes
KEYS   hosts    hash   host -> packed
       queue    zset   one per host
       lease    zset   fingerprint -> ms
       task     hash   fingerprint -> record
ARGV   limit    int    give up if there are more hosts, leases or buckets than this
REPLY  list   empty, or: requests in all queues, shelved and pages of all hosts, fingerprints in all
       buckets, each followed by its counter; then host, in flight and leases for each host where
       the last two differ
COST   O(limit)
]]
--@include bulk counters host record seen
-- A Bloom filter has no buckets.
local largest = math.max(buckets or 0, redis.call('HLEN', hosts), redis.call('ZCARD', lease))
if largest > limit then return {} end

local leases = {}
local leased = redis.call('ZRANGE', lease, '-inf', '+inf', 'BYSCORE', 'LIMIT', 0, limit)
for _, record in ipairs(bulk_read('HMGET', task, leased)) do
  local name = host_of(record or '') or '?'
  leases[name] = (leases[name] or 0) + 1
end

local queued, shelved, pages, uneven = 0, 0, 0, {}
local names = redis.call('HGETALL', hosts)
for i = 1, #names, 2 do
  local known = unpack_host(names[i + 1]) or unpack_host(NEW_HOST)
  queued = queued + redis.call('ZCARD', queue .. names[i])
  shelved, pages = shelved + known.shelved, pages + known.pages
  local in_flight, out = known.in_flight, leases[names[i]] or 0
  if in_flight ~= out then
    for _, value in ipairs({ names[i], in_flight, out }) do uneven[#uneven + 1] = value end
  end
end

local reply = {
  queued, read_counter('pending'),
  shelved, read_counter('shelved'),
  pages, read_counter('done'),
  count_seen(), read_counter('seen'),
}
for _, value in ipairs(uneven) do reply[#reply + 1] = value end
return reply
