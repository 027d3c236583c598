--[[
shapes: shapes of URLs: their budgets, and when to look again.

shape_records: what is known about a host's shapes. A corrupt record is replaced by a new one.

shapes: how many pages each URL shape may have (docs/adr/0051-urls-beyond-the-budget-come-last.md). A budget
is doubled when the pages of its latest half have yielded enough. Beyond it, URLs wait until nothing
else is left (look.lua), and go on up to LAST times the budget.

A host has at most MAX_SHAPES shapes with budgets of their own; all others share one, so that a trap
of random words cannot escape it.

looks: which shapes have held URLs, and whether these get their turn when nothing else is left.

KEYS   shapes   hash   host -> msgpack: shape -> { pages, doublings, credit, 0, last }. last: how
                       many it may have since nothing else is left. (The fourth, and another
                       meaning of the fifth, which is never more than its pages, are of an earlier
                       release.)
       probation hash  fingerprint of a lease -> shape whose budget it uses
       trapped   zset  fingerprint -> shape; below 0: a handler that no worker has
       looks    zset   `number host` of a shape -> inf: they will; -1: it is a trap. (Any other
                       number is from an earlier release: they will.)
]]
--@include counters bulk limits
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

local MAX_SHAPES = 100
local LAST = 10
local NEEDED = 0.2 -- credit per page: engine/stages/traps.py defines what a page is worth
local UNFINISHED = { lease = true, reap = true, reclaim = true, release = true, retry = true }

-- The number under which all further shapes of a host share a budget.
local function any_of(name) return tonumber(string.sub(redis.sha1hex(name), 1, 8), 16) end

-- The entry of a shape, and its number: the shared one if the host has too many shapes.
local function shape(name, number)
  local all, size = shapes_at(name), 0
  changed_shapes[name] = true
  if not all[number] then
    for _ in pairs(all) do size = size + 1 end
    if size >= MAX_SHAPES then number = any_of(name) end
    all[number] = all[number] or { 0, 0, 0, 0, 0 }
  end
  return all[number], number
end

local function budget_of(entry) return limits.shape_budget * 2 ^ entry[2] end

local function last_of(entry) return LAST * budget_of(entry) end

local function allowed(entry) return math.max(budget_of(entry), entry[5] or 0) end

local function room_of(entry) return allowed(entry) - entry[1] end

-- Doubles the budget if it is half spent and its latest half has earned the credit due. Surplus
-- credit carries over, but no more than the same amount again. Returns the room left.
local function grow(entry)
  local due = budget_of(entry) / (entry[2] > 0 and 2 or 1) * NEEDED
  if entry[1] >= budget_of(entry) / 2 and entry[3] >= due and entry[2] < 40 then
    entry[2], entry[3] = entry[2] + 1, math.min(entry[3] - due, due)
  end
  return room_of(entry)
end

-- Leases end. An unfinished page gives back its place in the budget, as it will be leased again.
local function end_probation(fps, names)
  for i, number in ipairs(bulk_read('HMGET', probation, fps)) do
    local entry = number and UNFINISHED[verb] and shape(names[i], tonumber(number))
    if entry then entry[1] = math.max(0, entry[1] - 1) end
  end
  bulk('HDEL', probation, fps)
  write_shapes()
end

local TRAP = -1

local function look_name(name, number) return string.format('%d ', number) .. name end

local function count_looks() return redis.call('ZCOUNT', looks, 0, '+inf') end

local function await_look(name, number, entry)
  local score = allowed(entry) < last_of(entry) and '+inf' or TRAP
  redis.call('ZADD', looks, score, look_name(name, number))
end

-- The shape has yielded something since: it gets another turn, even if it was judged a trap.
local function look_anew(member) redis.call('ZADD', looks, 'XX', '+inf', member) end
