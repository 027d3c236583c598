--[[
record: what `task` holds for a fingerprint: `priority host body`. Lua never decodes the body: its
doubles would corrupt 64-bit integers in user data.
]]
local SOUND = '^%-?%d+ %S' -- the cheapest useful check

local function pack_record(priority, name, body)
  return priority .. ' ' .. name .. ' ' .. body
end

local function unpack_record(record)
  local priority, name, body = string.match(record, '^(%-?%d+) (%S+) (.*)$')
  return tonumber(priority), name, body
end

-- Only the host: most callers need no copy of the body, which may be long.
local function host_of(record)
  return string.match(record, '^%-?%d+ (%S+)')
end
