--[[
end_run: a run has ended on its agent, or the agent gives it back. Only the holder of the token may
say so, and only the first time counts.

FLAGS  allow-oom
KEYS   run      hash   what is known of a run; by id
       run_queue zset  run -> ms from which an agent may take it; by spider
       run_leases zset run -> ms until which its agent has it
       run_lanes hash  job -> the run that works on it
       run_ended zset  run -> ms at which it ended
ARGV   id       text
       claim    text   the token from take_run
       back     int    1: it waits for another agent
       blamed   int    0: its agent is only being stopped, which says nothing about the run
       most_lost int   how many agents may vanish with it, or be blamed on it
EACH   field    text   of what came of it: exit_code, report, ...
       value    text
REPLY  int    DONE, also for a repeated call; LOST: it is another agent's
COST   O(fields + log N)
]]
--@include fleet_clock run_end
local at = run .. id
local known = redis.call('HMGET', at, 'token', 'ended_ms')
if known[1] ~= claim then return LOST end
if known[2] then return DONE end
for i = EACH.start, #ARGV, EACH.stride do redis.call('HSET', at, ARGV[i], ARGV[i + 1]) end
if back == 1 then give_back(id, most_lost, blamed) else finish_run(id) end
return DONE
