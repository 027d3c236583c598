--[[
shape_records: what is known about a host's shapes. A corrupt record is replaced by a new one.

KEYS   shapes   hash   host -> msgpack: shape -> { pages, doublings, credit, 0, last }. last: how
                       many it may have since nothing else is left. (The fourth, and another
                       meaning of the fifth, which is never more than its pages, are of an earlier
                       release.)
]]
--@include counters
local at_hosts, changed_shapes = {}, {}

local function is_sound(all)
  for number, entry in pairs(all) do
    local sum = type(entry) == 'table' and pcall(function() return number + entry[1] + entry[2] + entry[3] end)
    if not sum then return false end
  end
  return true
end

local function shapes_at(name)
  if not at_hosts[name] then
    local packed = redis.call('HGET', shapes, name)
    local readable, all = pcall(cmsgpack.unpack, packed or '\128')
    if not readable or type(all) ~= 'table' or not is_sound(all) then
      count('damaged', 1)
      all = {}
    end
    at_hosts[name] = all
  end
  return at_hosts[name]
end

local function write_shapes()
  for name in pairs(changed_shapes) do
    redis.call('HSET', shapes, name, cmsgpack.pack(at_hosts[name]))
  end
  changed_shapes = {}
end
