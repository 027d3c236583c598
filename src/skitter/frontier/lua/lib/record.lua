--[[
record: what `task` holds for a fingerprint: `priority host body`. The body is opaque to Lua, so
that no 64-bit number and no byte of a user's data passes through Lua's doubles.
]]
local function pack_record(priority, name, body)
  return priority .. ' ' .. name .. ' ' .. body
end

local function unpack_record(record)
  local priority, name, body = string.match(record, '^(%-?%d+) (%S+) (.*)$')
  return tonumber(priority), name, body
end

-- The host alone: a body may be long, and most who ask do not need a copy of it.
local function host_of(record)
  return string.match(record, '^%-?%d+ (%S+)')
end
