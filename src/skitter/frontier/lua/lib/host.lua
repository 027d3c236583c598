--[[
host: hosts and their records.

host_record: the numbers kept about a host, packed as frontier/delays.py reads them.

  in_flight   leases out now          asked_at       ms of its last turn; 0: never
  turn        ticket of that turn     blocked_until  ms, e.g. from Retry-After; 0: not blocked
  pages       pages done              shelved        pending, but out of reach of its page budget
  best        priority of the first request in its queue; NEVER: the queue is empty
  tied        at least this many at the head of the queue have that priority; 0: look there
  listed_in   DUE, WAIT or NOWHERE: the list the host is in, so that moving it costs one command
  own         optional fields: delay_ms, max_in_flight and max_pages in place of the job's,
              crawl_delay_ms from robots.txt, and what adapt.lua learned

host: host records, each loaded once per script.

`peek` is for reading only. `touch` is for changes that cannot move the host to another list;
`commit` writes it. `host` is for all other changes; `commit` also moves it to the right list.

A corrupt record is replaced by a new one: one damaged host must not stop all others.

KEYS   hosts    hash   host -> numbers, as in host.lua
]]
--@include bulk counters
local FORMAT = '<i4i4i4i4i2Bddd' -- a third of msgpack's time; `own`, if any, follows as msgpack
local LENGTH = struct.size(FORMAT)
local PLACE, PLACE_AT = '<i4i2B', 13 -- tied, best and listed_in
local NOWHERE, DUE, WAIT, UNKNOWN = 0, 1, 2, 3
local NEVER = -32768
local NONE = {}

local function unpack_own(packed)
  local readable, own = pcall(cmsgpack.unpack, packed)
  if not readable or type(own) ~= 'table' then return nil end
  for _, value in pairs(own) do
    if type(value) ~= 'number' then return nil end
  end
  return own
end

-- Returns nil if the record is corrupt.
local function unpack_host(packed)
  if #packed < LENGTH then return nil end
  local in_flight, pages, shelved, tied, best, listed_in, turn, asked_at, blocked_until, rest =
    struct.unpack(FORMAT, packed)
  local own = NONE
  if rest <= #packed then own = unpack_own(string.sub(packed, rest)) end
  -- `not (sum >= 0)` also catches NaN, which fails every comparison.
  if not own or listed_in > WAIT or tied < 0 or not (turn + asked_at + blocked_until >= 0) then
    return nil
  end
  return {
    in_flight = in_flight, pages = pages, shelved = shelved, tied = tied, best = best,
    listed_in = listed_in, turn = turn, asked_at = asked_at, blocked_until = blocked_until,
    next_list = nil, next_rank = nil, -- settle.lua
    own = own,
  }
end

-- Only tied, best and listed_in; UNKNOWN: the record is corrupt.
local function unpack_place(packed)
  if #packed < LENGTH then return 0, NEVER, UNKNOWN end
  return struct.unpack(PLACE, packed, PLACE_AT)
end

local function pack_host(known)
  local packed = struct.pack(FORMAT, known.in_flight, known.pages, known.shelved, known.tied,
    known.best, known.listed_in, known.turn, known.asked_at, known.blocked_until)
  if known.own == NONE or not next(known.own) then return packed end
  return packed .. cmsgpack.pack(known.own)
end

local NEW_HOST = struct.pack(FORMAT, 0, 0, 0, 1, NEVER, NOWHERE, 0, 0, 0)

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
