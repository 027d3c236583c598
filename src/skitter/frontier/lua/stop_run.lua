--[[
stop_run: somebody wants a run to end. One that waits ends here; the agent of any other learns it
when it renews.

FLAGS  allow-oom
KEYS   run      hash   what is known of a run; by id
       run_queue zset  run -> ms from which an agent may take it; by spider
       run_leases zset run -> ms until which its agent has it
       run_lanes hash  job -> the run that works on it
       run_ended zset  run -> ms at which it ended
ARGV   id       text
       who      text   by whom
REPLY  int    DONE: it has ended; RELEASED: its agent stops it; SEEN: it had ended before; LOST:
              there is no such run
COST   O(log N)
]]
--@include fleet_clock run_end
local at = run .. id
local known = redis.call('HMGET', at, 'spider', 'ended_ms')
if not known[1] then return LOST end
if known[2] then return SEEN end
redis.call('HSETNX', at, 'stop', who)
local until_ms = redis.call('ZSCORE', run_leases, id)
local is_held = until_ms and tonumber(until_ms) > now_ms -- else its agent is gone
if redis.call('ZREM', run_queue .. known[1], id) == 0 and is_held then return RELEASED end
finish_run(id)
return DONE
