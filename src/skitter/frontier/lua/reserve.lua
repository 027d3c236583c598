--[[
reserve: room for waiting URLs within the quota of a tenant. All processes that push share one count,
which each lowers by what it reserves; it is taken anew when it is old, from the queues of all jobs.

FLAGS  allow-oom
KEYS   rooms    hash   of no job: tenant -> ms of the count, the limit then, how many may be added
ARGV   now      text   server ms; empty outside of tests and simulation
       tenant   text
       limit    int    URLs that may wait
       wanted   int    at most this many; below 0: reserved, and not new
       fresh_ms int    how old the count may be
       counted  int    how many wait; -1: not counted
       asked_ms int    when it was told to count
REPLY  ints   how many were reserved, the time; -1: count first
COST   O(1)
]]
--@include fleet_clock fleet_once
local first = said_before()
if first then return first end
local KEPT_S = 60
local known = redis.call('HGET', rooms, tenant) or ''
local at, of, left = string.match(known, '^(%S+) (%S+) (%S+)$')
at, left = tonumber(at) or 0, tonumber(left) or 0
local is_known = tonumber(of) == limit
if counted >= 0 and (at < asked_ms or not is_known) then
  at, left = now_ms, limit - counted
elseif counted < 0 and wanted > 0 and (not is_known or now_ms - at >= fresh_ms) then
  return note_answer({ -1, now_ms })
end
local reserved = wanted < 0 and wanted or math.max(0, math.min(wanted, left))
redis.call('HSET', rooms, tenant, string.format('%.0f %.0f %.0f', at, limit, left - reserved))
redis.call('EXPIRE', rooms, KEPT_S)
return note_answer({ reserved, now_ms })
