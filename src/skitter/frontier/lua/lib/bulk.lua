--[[
bulk: run one command with many values, in slices that fit Lua's stack.
]]
local SLICE = 4000

local function bulk(command, key, values)
  for first = 1, #values, SLICE do
    redis.call(command, key, unpack(values, first, math.min(first + SLICE - 1, #values)))
  end
end

-- The same for reads; returns all answers as one list.
local function bulk_read(command, key, fields)
  if #fields == 0 then return {} end
  if #fields <= SLICE then return redis.call(command, key, unpack(fields)) end
  local answers = {}
  for first = 1, #fields, SLICE do
    local part = redis.call(command, key, unpack(fields, first, math.min(first + SLICE - 1, #fields)))
    for _, answer in ipairs(part) do answers[#answers + 1] = answer end
  end
  return answers
end
