--[[
lane: a host has one clock, and a queue for each lane: pages for a browser wait in line beside those
for plain HTTP, so that neither waits for the other's workers. Behind the host's name stands the
lane: `shop.example|browser`; that of plain HTTP has none.

KEYS   due         zset   host -> rank
       due_browser zset   host -> rank: those of the browser's lane
]]
--@include host
local BROWSER = '|browser'

local function is_browser(name)
  return string.sub(name, -#BROWSER) == BROWSER
end

local function due_for(name)
  return is_browser(name) and due_browser or due
end

-- Who keeps the time of a host: the record of its plain name.
local function clock_name(name)
  return is_browser(name) and string.sub(name, 1, -#BROWSER - 1) or name
end
