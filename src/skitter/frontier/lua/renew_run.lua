--[[
renew_run: an agent still has its run. Whoever does not hold the token learns that the run is
another's.

FLAGS  allow-oom
KEYS   run      hash   what is known of a run; by id
       run_leases zset run -> ms until which its agent has it
ARGV   id       text
       claim    text   the token from take_run
       ttl_ms   int    how long the agent has it from now
       job      text   the job that it has begun, with its start pages; empty: not known yet
       version  text   of the spider's source
       done     int    pages of that job that were done before
REPLY  int    EXTENDED, CLOSED: somebody wants it to stop; LOST: it is another agent's, or has ended
COST   O(log N)
]]
--@include fleet_clock
local at = run .. id
local known = redis.call('HMGET', at, 'token', 'ended_ms', 'stop')
if known[1] ~= claim or known[2] then return LOST end
redis.call('ZADD', run_leases, now_ms + ttl_ms, id)
if job ~= '' then
  redis.call('HSET', at, 'job', job, 'version', version)
  redis.call('HSETNX', at, 'done_before', done)
end
return known[3] and CLOSED or EXTENDED
