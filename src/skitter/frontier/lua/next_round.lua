--[[
next_round: a round of a schedule has begun; the next one begins later. Whoever comes second finds
that it was done.

FLAGS  allow-oom
KEYS   schedule hash   next_ms, fired_ms, rounds, missed, and what it is made of
ARGV   due_ms   text   the round that has begun
       next_ms  text   when the next one begins
       missed   int    how many passed while nobody was there
REPLY  int    1: the caller was first
COST   O(1)
]]
--@include once clock
if redis.call('HGET', schedule, 'next_ms') ~= due_ms then return remember(0) end
redis.call('HSET', schedule, 'next_ms', next_ms, 'fired_ms', wall_ms)
redis.call('HINCRBY', schedule, 'rounds', 1)
redis.call('HINCRBY', schedule, 'missed', missed)
return remember(1)
