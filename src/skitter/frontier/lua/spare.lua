--[[
spare: how many requests per host a job's only worker may lease beyond max_in_flight, so that the
next is at hand when one is done. A lone worker can enforce max_in_flight locally. With several
workers there are no spares: only the number of leases limits what they fetch together.

FLAGS  allow-oom
KEYS   control  hash   state and limits
       workers  hash   worker -> msgpack of its last heartbeat
ARGV   name     text   the caller; its heartbeat must be there, so that others can see it
       wanted   int
REPLY  int    how many are granted
COST   O(1): heartbeats are read only if there are few
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
