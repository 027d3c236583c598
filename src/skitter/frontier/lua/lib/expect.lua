--[[
expect: check the types of keys before the first write. A command on a key of another type ends the
script, and what it had written stays: pages whose leases have ended would be in no list. The length
of a key is the cheapest question that only the right type answers.
]]
local LENGTH = { hash = 'HLEN', list = 'LLEN', stream = 'XLEN', zset = 'ZCARD' }

local function expect(kind, ...)
  for _, key in ipairs({ ... }) do redis.call(LENGTH[kind], key) end
end
