--[[
lane: a host has one clock, but one queue per lane: browser pages queue separately from plain HTTP
ones, so that neither waits for the other's workers. The lane is a suffix to the host's name, as in
`shop.example|browser`; plain HTTP has none.

KEYS   due         zset   host -> rank
       due_browser zset   host -> rank, in the browser lane
]]
--@include host
local BROWSER = '|browser'
local clock_names = {}

-- The record that holds the clock of all lanes of a host: the one of its plain name.
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
