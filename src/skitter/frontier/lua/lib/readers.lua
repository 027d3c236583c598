--[[
readers: the outputs of a job, each a consumer group on its items, and what they still wait for.

KEYS   items    stream what handlers yielded
]]
local function parts_of(id)
  local ms, number = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(number)
end

local function other_readers(name)
  local found = {}
  if redis.call('EXISTS', items) == 0 then return found end
  for _, info in ipairs(redis.call('XINFO', 'GROUPS', items)) do
    local facts = {}
    for i = 1, #info, 2 do facts[info[i]] = info[i + 1] end
    if facts.name ~= name and string.find(facts.name, '^load') then
      local last = facts['last-delivered-id']
      local ms, number = parts_of(last)
      found[#found + 1] = { name = facts.name, last = last, ms = ms, number = number, lag = facts.lag }
    end
  end
  return found
end

-- Whether one of them has not got it yet, or has not acknowledged it.
local function is_wanted(id, readers)
  local ms, number = parts_of(id)
  for _, reader in ipairs(readers) do
    if ms > reader.ms or (ms == reader.ms and number > reader.number) then return true end
    if #redis.call('XPENDING', items, reader.name, id, id, 1) > 0 then return true end
  end
  return false
end
