--[[
run_end: how a run leaves its agent: it has ended, or it waits for another agent.

KEYS   run       hash   what is known of a run; by id
       run_queue zset   run -> ms from which an agent may take it; by spider
       run_leases zset  run -> ms until which its agent has it
       run_lanes hash   job -> the run that works on it
       run_ended zset   run -> ms at which it ended
]]
local function leave(id)
  local at = run .. id
  local lane = redis.pcall('HGET', at, 'lane')
  redis.call('ZREM', run_leases, id)
  if type(lane) == 'string' and redis.call('HGET', run_lanes, lane) == id then
    redis.call('HDEL', run_lanes, lane)
  end
end

local function finish_run(id)
  leave(id)
  redis.call('HSET', run .. id, 'ended_ms', now_ms)
  redis.call('ZADD', run_ended, now_ms, id)
end

-- Its agent has vanished (lost: 1), or gives it back. It waits a little longer each time.
local function give_back(id, most_lost, more)
  local at = run .. id
  local known = redis.pcall('HMGET', at, 'spider', 'lost')
  local spider = known[1]
  leave(id)
  if not spider then return end -- somebody removed it by hand, or wrote something else there
  local lost = (tonumber(known[2]) or 0) + more
  redis.call('HSET', at, 'lost', string.format('%.0f', lost))
  redis.call('HDEL', at, 'token')
  if lost > most_lost or redis.call('HEXISTS', at, 'stop') == 1 then return finish_run(id) end
  local wait_ms = math.min(10000, 250 * 2 ^ lost)
  redis.call('ZADD', run_queue .. spider, now_ms + wait_ms, id)
end
