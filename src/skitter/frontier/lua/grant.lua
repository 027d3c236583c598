--[[
grant: share max_pages out among the shards of a job. Shard 0 keeps the sum: what each shard was
granted, and what it ceded of that. Both only grow, and all shards are heard each time: a call that
comes late or twice takes nothing twice, and a grant that never reached its shard is found again.

FLAGS  allow-oom
KEYS   budget   hash   granted:<shard>, ceded:<shard>; limit: what may be out at the most
EACH   granted  int    every shard in order, as allow.lua answered
       ceded    int
       used     int
       want     int    how many pages it could hand out now; 0: it did not ask
REPLY  ints   granted, per shard; nothing if there is no limit
COST   O(shards)
]]
--@include limits
if limits.max_pages == math.huge then return {} end

-- Many batches at a time while there is plenty, so that a shard seldom has to ask.
local AHEAD = 64

local function known(field, told)
  return math.max(tonumber(redis.call('HGET', budget, field)) or 0, tonumber(told))
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

-- What was out before the limit was set, or lowered, stays out.
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
