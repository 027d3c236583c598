--[[
host: host records, each loaded once per script.

`peek` is for reading only. `touch` is for changes that cannot move the host to another list;
`commit` writes it. `host` is for all other changes; `commit` also moves it to the right list.

A corrupt record is replaced by a new one: one damaged host must not stop all others.

KEYS   hosts    hash   host -> numbers, as in host_record.lua
]]
--@include bulk counters host_record
local packed_hosts = {} -- name -> packed record
local loaded = {} -- name -> unpacked record, filled on demand
local touched = {} -- name -> true: to be written
local unsettled = {} -- name -> true: may belong in another list now

-- Prefetches many with one command; `peek` reads any others one by one.
local function load_hosts(names)
  local missing = {}
  for i = 1, #names do
    local name = names[i]
    if not packed_hosts[name] then
      packed_hosts[name], missing[#missing + 1] = NEW_HOST, name
    end
  end
  local found = bulk_read('HMGET', hosts, missing)
  for i = 1, #missing do packed_hosts[missing[i]] = found[i] or NEW_HOST end
end

local function begin_anew(name)
  local known = unpack_host(NEW_HOST)
  known.tied, known.listed_in = 0, UNKNOWN
  touched[name], unsettled[name] = true, true
  count('damaged', 1)
  return known
end

local function peek(name)
  if loaded[name] then return loaded[name] end
  if not packed_hosts[name] then load_hosts({ name }) end
  local known = unpack_host(packed_hosts[name]) or begin_anew(name)
  loaded[name] = known
  return known
end

local function touch(name)
  touched[name] = true
  return loaded[name] or peek(name)
end

local function host(name)
  local known = loaded[name] or peek(name)
  touched[name], unsettled[name], known.next_list = true, true, nil
  return known
end

-- For a host found in `list`: being there means that it has work, whatever its record says.
local function host_in_line(name, list)
  local known = host(name)
  if known.best == NEVER then known.tied = 0 end
  if known.listed_in ~= UNKNOWN then known.listed_in = list end
  return known
end
