--[[
host: what is known about a host, loaded once per script.

  in_flight   leases out now          asked_at       ms of its last turn
  turn        ticket of that turn     blocked_until  ms, e.g. from Retry-After
  pages       pages done              shelved        pending that its budget will never reach
  best        priority of the first request in its queue; absent: look there
  tied        at least so many at the head of the queue have that priority
  place       DUE, WAIT or NOWHERE: where the host stands, so that moving it costs one command
  delay_ms, max_in_flight, max_pages: its own values, in place of the job's

Three ways to ask for one. `peek`: only to read. `touch`: to change what does not move it; `commit`
writes it. `host`: to change anything; `commit` also puts it where it then belongs.

KEYS   hosts    hash   host -> msgpack of that table
]]
--@include bulk
local NOWHERE, DUE, WAIT = 0, 1, 2
local NEVER = -math.huge -- `best` of an empty queue
local loaded = {} -- name -> table
local touched = {} -- name -> true: to be written
local unsettled = {} -- name -> true: to be put in its place

local function load_hosts(names)
  local missing, listed = {}, {}
  for _, name in ipairs(names) do
    if not loaded[name] and not listed[name] then
      missing[#missing + 1], listed[name] = name, true
    end
  end
  for i, packed in ipairs(bulk_read('HMGET', hosts, missing)) do
    loaded[missing[i]] = packed and cmsgpack.unpack(packed)
      or { in_flight = 0, pages = 0, shelved = 0, place = NOWHERE, best = NEVER }
  end
end

local function peek(name)
  if not loaded[name] then load_hosts({ name }) end
  return loaded[name]
end

local function touch(name)
  touched[name] = true
  return peek(name)
end

local function host(name)
  unsettled[name] = true
  return touch(name)
end
