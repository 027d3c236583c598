--[[
next_round: advance a schedule to its next round. Of several callers that saw the same round become
due, only the first succeeds.

FLAGS  allow-oom
KEYS   schedule hash   next_ms, fired_ms, rounds, missed, and what it is made of
ARGV   due_ms   text   the round that begins now
       next_ms  text   when the next one begins
       missed   int    rounds that passed while no scheduler was running
REPLY  int    1: the caller was first
COST   O(1)
]]
--@include once clock
if redis.call('HGET', schedule, 'next_ms') ~= due_ms then return remember(0) end
redis.call('HSET', schedule, 'next_ms', next_ms, 'fired_ms', wall_ms)
redis.call('HINCRBY', schedule, 'rounds', 1)
redis.call('HINCRBY', schedule, 'missed', missed)
return remember(1)
