--[[
spare: how many requests of a host the only worker of a job may hold beyond those in flight, so that
the next is at hand when one is done. It keeps to max_in_flight by itself. While others are at work
there are none: what all hold together is then what may be in flight.

FLAGS  allow-oom
KEYS   control  hash   state and limits
       workers  hash   worker -> msgpack of its last heartbeat
ARGV   name     text   who asks; its heartbeat must be there, so that others can see it
       wanted   int
REPLY  int    how many there are
COST   O(1): of more than a handful of workers, none is alone
]]
--@include limits
local function fetches(beat)
  local read, known = pcall(cmsgpack.unpack, beat)
  return not read or type(known) ~= 'table' or known.kind ~= 'loader'
end

local few = redis.call('HLEN', workers) <= 10
local beats, others, seen = few and redis.call('HGETALL', workers) or {}, 0, false
for i = 1, #beats, 2 do
  if beats[i] == name then
    seen = true
  elseif fetches(beats[i + 1]) then
    others = others + 1
  end
end
local granted = seen and others == 0 and wanted or 0
if granted ~= limits.spare then redis.call('HSET', control, 'spare', granted) end
return granted
