--[[
take_run: lease the run that has waited longest to an agent which has its spider. Runs of agents
that vanished wait again. A job has one run at a time; the others wait.

FLAGS  allow-oom
KEYS   run      hash   what is known of a run; by id
       run_queue zset  run -> ms from which an agent may take it; by spider
       run_leases zset run -> ms until which its agent has it
       run_lanes hash  job -> the run that works on it
ARGV   agent    text   its name
       token    text   names this call: whoever has it may renew and end the run
       ttl_ms   int    how long the agent has it without renewing
       most_lost int   how many agents may vanish with it
EACH   spider   text   one that the agent has
REPLY  list   id, token, spec, lost, started_ms, job, done_before, now; empty: nothing to do
COST   O((spiders + expired leases + runs that wait for a job) * log N)
]]
--@include fleet_clock run_end
local REAPED, LOOKED_AT = 20, 1000 -- all that wait: those before one may wait for a job
local expired = redis.call('ZRANGE', run_leases, '-inf', now_ms, 'BYSCORE', 'LIMIT', 0, REAPED)
for _, id in ipairs(expired) do give_back(id, most_lost, 1) end

-- One that was removed by hand holds no job.
local function is_free(lane)
  local holder = redis.call('HGET', run_lanes, lane)
  return not holder or not redis.call('ZSCORE', run_leases, holder)
end

local best, best_ms
for at = EACH.start, #ARGV, EACH.stride do
  local queue = run_queue .. ARGV[at]
  local waiting = redis.call(
    'ZRANGE', queue, '-inf', now_ms, 'BYSCORE', 'LIMIT', 0, LOOKED_AT, 'WITHSCORES')
  for i = 1, #waiting, 2 do
    local lane = redis.pcall('HGET', run .. waiting[i], 'lane')
    if type(lane) ~= 'string' then -- removed by hand, or something else is there
      redis.call('ZREM', queue, waiting[i])
    elseif is_free(lane) and (not best_ms or tonumber(waiting[i + 1]) < best_ms) then
      best, best_ms = waiting[i], tonumber(waiting[i + 1])
    end
  end
end
if not best then return {} end

local at = run .. best
local found = redis.call('HMGET', at, 'spider', 'lane')
redis.call('ZREM', run_queue .. found[1], best)
redis.call('ZADD', run_leases, now_ms + ttl_ms, best)
redis.call('HSET', run_lanes, found[2], best)
redis.call('HSETNX', at, 'started_ms', now_ms)
redis.call('HSET', at, 'agent', agent, 'token', token)
local known = redis.call('HMGET', at, 'spec', 'lost', 'started_ms', 'job', 'done_before')
return {
  best, token, known[1] or '', known[2] or '0', known[3], known[4] or '', known[5] or '0',
  string.format('%.0f', now_ms),
}
