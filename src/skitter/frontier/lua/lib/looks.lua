--[[
looks: which shapes have held URLs and await a last look: look.lua.

KEYS   looks    zset   `number host` of a shape -> how many were held at its previous look; inf:
                       there was none; -1: it is a trap
]]
--@include shapes
local TRAP = -1

local function look_name(name, number) return string.format('%d ', number) .. name end

local function count_looks() return redis.call('ZCOUNT', looks, 0, '+inf') end

local function await_look(name, number)
  redis.call('ZADD', looks, 'NX', '+inf', look_name(name, number))
end

-- The shape has yielded something since: give it another look, even if it was judged a trap.
local function look_anew(member) redis.call('ZADD', looks, 'XX', '+inf', member) end
