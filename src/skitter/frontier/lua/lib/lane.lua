--[[
lane: a host has one clock, and a queue for each lane: pages for a browser wait in line beside those
for plain HTTP, so that neither waits for the other's workers. Behind the host's name stands the
lane: `shop.example|browser`; that of plain HTTP has none.

KEYS   due         zset   host -> rank
       due_browser zset   host -> rank: those of the browser's lane
]]
--@include host
local BROWSER = '|browser'
local clock_names = {}

-- Who keeps the time of a host: the record of its plain name.
local function clock_name(name)
  local known = clock_names[name]
  if known then return known end
  local plain = string.sub(name, -#BROWSER) == BROWSER and string.sub(name, 1, -#BROWSER - 1) or name
  clock_names[name] = plain
  return plain
end

local function due_for(name)
  return clock_name(name) == name and due or due_browser
end
