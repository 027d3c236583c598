--[[
host: what is known about a host, loaded once per script.

  in_flight   leases out now          asked_at       ms of its last turn; 0: never
  turn        ticket of that turn     blocked_until  ms, e.g. from Retry-After; 0: not
  pages       pages done              shelved        pending that its budget will never reach
  best        priority of the first request in its queue; NEVER: there is none
  tied        at least so many at the head of the queue have that priority; 0: look there
  place       DUE, WAIT or NOWHERE: where the host stands, so that moving it costs one command
  own         delay_ms, max_in_flight, max_pages: its own values, in place of the job's

Three ways to ask for one. `peek`: only to read. `touch`: to change what does not move it; `commit`
writes it. `host`: to change anything; `commit` also puts it where it then belongs.

KEYS   hosts    hash   host -> those numbers, packed as frontier/host.py reads them
]]
--@include bulk
local FORMAT = '<i4i4i4i4i2Bddd' -- a third of the time of msgpack; `own` follows as msgpack, if any
local NOWHERE, DUE, WAIT = 0, 1, 2
local NEVER = -32768
local NONE = {}
local loaded = {} -- name -> table
local touched = {} -- name -> true: to be written
local unsettled = {} -- name -> true: to be put in its place

local function unpack_host(packed)
  local in_flight, pages, shelved, tied, best, place, turn, asked_at, blocked_until, rest =
    struct.unpack(FORMAT, packed)
  return {
    in_flight = in_flight, pages = pages, shelved = shelved, tied = tied, best = best,
    place = place, turn = turn, asked_at = asked_at, blocked_until = blocked_until,
    next_place = nil, next_rank = nil, -- settle.lua
    own = rest <= #packed and cmsgpack.unpack(string.sub(packed, rest)) or NONE,
  }
end

local function pack_host(known)
  local packed = struct.pack(FORMAT, known.in_flight, known.pages, known.shelved, known.tied,
    known.best, known.place, known.turn, known.asked_at, known.blocked_until)
  return next(known.own) and packed .. cmsgpack.pack(known.own) or packed
end

local NEW_HOST = struct.pack(FORMAT, 0, 0, 0, 1, NEVER, NOWHERE, 0, 0, 0)

local function load_hosts(names)
  local missing, listed = {}, {}
  for _, name in ipairs(names) do
    if not loaded[name] and not listed[name] then
      missing[#missing + 1], listed[name] = name, true
    end
  end
  for i, packed in ipairs(bulk_read('HMGET', hosts, missing)) do
    loaded[missing[i]] = unpack_host(packed or NEW_HOST)
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
  local known = touch(name)
  known.next_place, unsettled[name] = nil, true
  return known
end
