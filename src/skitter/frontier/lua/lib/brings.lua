--[[
brings: how many links and items a completed page has (complete.lua), and how deep it is.
]]
local BRINGS = '^(%d+) (%d+) ?(%d*) ?(%d*)$'

local function brought_by(claim)
  local brings = ARGV[claim.at + 2]
  if brings == '' then return 0, 0 end
  local links, items, depth, reach = string.match(brings, BRINGS)
  return tonumber(links), tonumber(items), tonumber(depth), tonumber(reach)
end
