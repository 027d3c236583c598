--[[
looks: which shapes have held URLs, and whether these get their turn when nothing else is left.

KEYS   looks    zset   `number host` of a shape -> inf: they will; -1: it is a trap. (Any other
                       number is from an earlier release: they will.)
]]
--@include shapes
local TRAP = -1

local function look_name(name, number) return string.format('%d ', number) .. name end

local function count_looks() return redis.call('ZCOUNT', looks, 0, '+inf') end

local function await_look(name, number, entry)
  local score = allowed(entry) < last_of(entry) and '+inf' or TRAP
  redis.call('ZADD', looks, score, look_name(name, number))
end

-- The shape has yielded something since: it gets another turn, even if it was judged a trap.
local function look_anew(member) redis.call('ZADD', looks, 'XX', '+inf', member) end
