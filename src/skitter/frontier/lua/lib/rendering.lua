--[[
rendering: count per shape whether its pages need a browser: plain HTML was enough (plain), only a
browser found more (browser), or neither found anything (neither). Keeps about 30,000 shapes; at 64
pages the counts of a shape are halved, so that old observations fade as sites change.

KEYS   rendering  hash   `shape what` -> pages
]]
local function learn_rendering(said)
  local count = tonumber(redis.call('HGET', rendering, said)) or 0
  if count == 0 and redis.call('HLEN', rendering) >= 90000 then return end
  redis.call('HSET', rendering, said, count + 1)
  if count + 1 < 64 then return end
  for _, what in ipairs({ ' plain', ' browser', ' neither' }) do
    local name = string.match(said, '^%S*') .. what
    count = tonumber(redis.call('HGET', rendering, name)) or 0
    redis.call('HSET', rendering, name, math.floor(count / 2))
  end
end
