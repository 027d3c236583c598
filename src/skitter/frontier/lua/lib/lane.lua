--[[
lane: a host has one clock, but one queue per lane: pages that need a browser and files to download
queue separately from plain HTTP, so that none waits for the others' workers. The lane is a suffix
to the host's name, as in `shop.example|browser`; plain HTTP has none.

KEYS   due         zset   host -> rank
       due_browser zset   host -> rank, in the browser lane
       due_file    zset   host -> rank, in the file lane
]]
--@include host
local clock_names = {}

-- The record that holds the clock of all lanes of a host: the one of its plain name.
local function clock_name(name)
  local known = clock_names[name]
  if known then return known end
  local plain = string.match(name, '^(.*)|browser$') or string.match(name, '^(.*)|file$') or name
  clock_names[name] = plain
  return plain
end

local function due_in(lane)
  return lane == '' and due or lane == 'file' and due_file or due_browser
end

local function due_for(name)
  return due_in(string.sub(name, #clock_name(name) + 2))
end
