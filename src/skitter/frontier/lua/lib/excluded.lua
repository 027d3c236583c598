--[[
excluded: requests that the job's patterns exclude. They are in `dead`, where older releases find
and revive them, at a time that no dead letter has.

KEYS   dead     zset   fingerprint -> ms; of an excluded one, plus EXCLUDED
       control  hash   state and limits
]]
local EXCLUDED = 2 ^ 46 -- ms: the year 4199

local function set_aside(fp)
  redis.call('ZINCRBY', dead, EXCLUDED, fp)
end

-- As Limits.patterns spells them.
local function current_patterns()
  local exclude, include = unpack(redis.call('HMGET', control, 'exclude', 'include'))
  return (exclude or '') .. '\n' .. (include or '')
end

local function count_excluded()
  return redis.call('ZCOUNT', dead, EXCLUDED, '+inf')
end
