--[[
start_run: record a run, which waits until an agent takes it. The caller chooses its id, so that a
repeated call changes nothing.

KEYS   runs     zset   run -> ms at which it was asked for
       run      hash   what is known of a run; by id
       run_queue zset  run -> ms from which an agent may take it; by spider
       run_ended zset  run -> ms at which it ended
ARGV   id       text   chosen by the caller
       spider   text   as agents call it
       lane     text   its job: one run works on a job at a time
       spec     text   JSON: what is to run
       keep     int    how many runs that have ended are kept
       at_most  int    how many others there may be
REPLY  int    NEW, SEEN: there is such a run already; FULL: too many have not ended
COST   O(log N)
]]
--@include fleet_clock
local FORGET = 20 -- bounds one call; the next call forgets the rest
if redis.call('EXISTS', run .. id) == 1 then return SEEN end
local ended = redis.call('ZCARD', run_ended)
if redis.call('ZCARD', runs) - ended >= at_most then return FULL end

redis.call('HSET', run .. id, 'spec', spec, 'spider', spider, 'lane', lane, 'asked_ms', now_ms)
redis.call('ZADD', runs, now_ms, id)
redis.call('ZADD', run_queue .. spider, now_ms, id)

local surplus = math.min(FORGET, ended - keep)
if surplus > 0 then
  local oldest = redis.call('ZRANGE', run_ended, '-inf', '+inf', 'BYSCORE', 'LIMIT', 0, surplus)
  for _, old in ipairs(oldest) do
    redis.call('DEL', run .. old)
    redis.call('ZREM', runs, old)
    redis.call('ZREM', run_ended, old)
  end
end
return NEW
