--[[
routes: how routes did, and whether they rest.

arms: what the fleet knows about the routes to a domain. The first four numbers decay, by the same
rule as in bandit.py; the others are for display. A corrupt record is replaced by a new one.

route_health: back off from a route after its proxy failed three times in a row; each further
failure doubles the rest.

KEYS   arms     string msgpack: at, arms: route -> good, bad, seconds, mb, good_total, bans, faults,
                bytes, money; by domain
       routes   hash   route:field -> a number
]]
--@include fleet_clock
local KEPT, HALF_LIFE_MS, MEMORY, KEEP_S = 0.995, 3600000, 30, 30 * 86400

local function read_arms(domain)
  local packed = redis.call('GET', arms .. domain)
  local read, known = pcall(cmsgpack.unpack, packed or '')
  if not read or type(known) ~= 'table' or type(known.arms) ~= 'table' then
    return { at = now_ms, arms = {} }
  end
  return known
end

local function fade(arm, by)
  for i = 1, 4 do arm[i] = by * arm[i] end
end

local function learn(known, route, row)
  local arm = known.arms[route] or { 0, 0, 0, 0, 0, 0, 0, 0, 0 }
  known.arms[route] = arm
  if row.verdict ~= 'page' then
    local by = KEPT * 0.5 ^ (math.max(0, now_ms - known.at) / HALF_LIFE_MS)
    for _, other in pairs(known.arms) do fade(other, by) end
    local which = row.verdict == 'good' and 1 or 2
    arm[which] = arm[which] + 1
    arm[3], arm[4] = arm[3] + row.ms / 1000, arm[4] + row.bytes / 1048576
    fade(arm, math.min(1, MEMORY / (arm[1] + arm[2])))
    known.at = math.max(known.at, now_ms)
  end
  local total = ({ good = 5, ban = 6, page = 7 })[row.verdict]
  arm[total] = arm[total] + 1
  arm[8], arm[9] = arm[8] + row.bytes, arm[9] + row.money
end

local function write_arms(domain, known)
  known.is_changed = nil
  redis.call('SET', arms .. domain, cmsgpack.pack(known), 'EX', KEEP_S)
end

local IN_A_ROW, FIRST_REST_MS, LONGEST_REST_MS = 3, 10000, 3600000

local function note_health(row)
  if row.verdict ~= 'fault' then
    if row.verdict ~= 'unused' then
      redis.call('HDEL', routes, row.route .. ':in_row', row.route .. ':rests')
    end
    return
  end
  local rests = tonumber(redis.call('HGET', routes, row.route .. ':rests')) or 0
  if rests > now_ms then return end -- requests in flight when it failed do not count again
  local row_length = redis.call('HINCRBY', routes, row.route .. ':in_row', 1)
  if row_length >= IN_A_ROW then
    local rest_ms = math.min(LONGEST_REST_MS, FIRST_REST_MS * 2 ^ (row_length - IN_A_ROW))
    redis.call('HSET', routes, row.route .. ':rests', now_ms + rest_ms)
  end
end
