--[[
live: copy what handlers yield for those who watch it, until ten minutes after they last asked.

KEYS   watched  string exists while somebody watches
       live     stream copies of `items`; capped, expires
]]
local MOST, KEPT_S = 10000, 600

local function is_watched()
  return redis.call('EXISTS', watched) == 1
end

local function show(fp, n, item)
  redis.call('XADD', live, 'MAXLEN', '~', MOST, '*', 'fp', fp, 'n', n, 'item', item)
  redis.call('EXPIRE', live, KEPT_S)
end
