--[[
route_health: back off from a route after its proxy failed three times in a row; each further
failure doubles the rest.

KEYS   routes   hash   route:field -> a number
]]
--@include fleet_clock
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
