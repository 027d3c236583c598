--[[
grant: share max_pages out among the shards of a job. Shard 0 keeps the books: how much each shard
was granted, and how much of that it ceded. Both counters only grow and every call reports those of
all shards, so a late or repeated call changes nothing and a grant that got lost is sent again.

FLAGS  allow-oom
KEYS   budget   hash   granted:<shard>, ceded:<shard>; limit: the most that may be granted in total
EACH   granted  int    one row per shard, in order, from allow.lua's reply
       ceded    int
       used     int
       want     int    how many pages it could hand out now; 0: it did not ask
REPLY  ints   granted, per shard; empty if there is no limit
COST   O(shards)
]]
--@include limits
if limits.max_pages == math.huge then return {} end

-- Grant many batches at once while pages are plentiful, so that shards rarely have to ask.
local AHEAD = 64

local function known(field, reported)
  return math.max(tonumber(redis.call('HGET', budget, field)) or 0, tonumber(reported))
end

local shares, out = {}, 0
for at = EACH.start, #ARGV, EACH.stride do
  local share = {
    granted = known('granted:' .. #shares, ARGV[at]),
    ceded = known('ceded:' .. #shares, ARGV[at + 1]),
    used = tonumber(ARGV[at + 2]),
    want = tonumber(ARGV[at + 3]),
  }
  out = out + share.granted - share.ceded
  shares[#shares + 1] = share
end

-- Grants from before the limit was set or lowered cannot be taken back.
local limit = math.max(limits.max_pages, out)
local rest = limit - out

local function give(share)
  local missing = share.want - (share.granted - share.ceded - share.used)
  if missing <= 0 then return 0 end
  local plenty = math.floor(rest / (2 * #shares))
  return math.min(rest, math.max(missing, math.min(AHEAD * share.want, plenty)))
end

local reply = {}
for i, share in ipairs(shares) do
  local given = give(share)
  rest = rest - given
  reply[i] = share.granted + given
  redis.call('HSET', budget, 'granted:' .. i - 1, reply[i], 'ceded:' .. i - 1, share.ceded)
end
redis.call('HSET', budget, 'limit', limit)
return reply
