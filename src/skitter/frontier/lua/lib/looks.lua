--[[
looks: which shapes have a last look before them, as URLs of theirs are held: look.lua.

KEYS   looks    zset   `number host` of a shape -> how many were held when it was last looked at; inf:
                       it never was; -1: it is a trap
]]
--@include shapes
local TRAP = -1

local function look_name(name, number) return string.format('%d ', number) .. name end

local function count_looks() return redis.call('ZCOUNT', looks, 0, '+inf') end

local function await_look(name, number)
  redis.call('ZADD', looks, 'NX', '+inf', look_name(name, number))
end

-- It has yielded something since: it is looked at once more.
local function look_anew(member) redis.call('ZADD', looks, 'XX', '+inf', member) end
