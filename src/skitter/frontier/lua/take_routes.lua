--[[
take_routes: take places for requests on routes with limits. Each reserves the most it may cost;
settle_routes replaces that with the actual cost. A reservation that is never settled stays, so that
no budget is ever exceeded.

FLAGS  allow-oom
KEYS   routes   hash   route:field -> a number
       flights  zset   place -> ms until which it counts as in flight; by route
ARGV   ttl_ms   int    how long a request may take
EACH   place    text   a unique name; a repeated call gets the same place
       route    text
       limits   text   `in_flight gap_ms requests bytes money`, each -1 if unlimited
       reserve  text   `bytes money`: the most it may cost
REPLY  ints   per place: 0 go, -1 the budget is spent, otherwise ms after which to ask again
COST   O(places * log N)
]]
--@include fleet_clock
local BUSY_MS = 50

local function numbers(text)
  local found = {}
  for word in string.gmatch(text, '%S+') do found[#found + 1] = tonumber(word) end
  return found
end

local function within(limit, spent, more)
  return limit < 0 or (tonumber(spent) or 0) + more <= limit
end

local function take(place, route, limits, reserve)
  local under_way = flights .. route
  redis.call('ZREMRANGEBYSCORE', under_way, '-inf', now_ms)
  if redis.call('ZSCORE', under_way, place) then return 0 end
  local in_flight, gap_ms, requests, bytes, money = unpack(limits)
  local so_far = redis.call('HMGET', routes, route .. ':sent', route .. ':bytes',
    route .. ':money', route .. ':next')
  local busy = redis.call('ZCARD', under_way)
  if not (within(requests, so_far[1], 1) and within(bytes, so_far[2], reserve[1])
      and within(money, so_far[3], reserve[2])) then
    return busy > 0 and BUSY_MS or -1 -- those in flight may not use all they reserved
  end
  if in_flight >= 0 and busy >= in_flight then return BUSY_MS end
  local next_ms = tonumber(so_far[4]) or 0
  if gap_ms > 0 and next_ms > now_ms then return math.ceil(next_ms - now_ms) end
  redis.call('ZADD', under_way, now_ms + ttl_ms, place)
  redis.call('HINCRBY', routes, route .. ':sent', 1)
  redis.call('HINCRBY', routes, route .. ':bytes', reserve[1])
  redis.call('HINCRBY', routes, route .. ':money', reserve[2])
  if gap_ms > 0 then redis.call('HSET', routes, route .. ':next', now_ms + gap_ms) end
  return 0
end

local answers = {}
for at = EACH.start, #ARGV, EACH.stride do
  answers[#answers + 1] =
    take(ARGV[at], ARGV[at + 1], numbers(ARGV[at + 2]), numbers(ARGV[at + 3]))
end
return answers
