--[[
host_record: the numbers kept about a host, packed as frontier/host.py reads them.

  in_flight   leases out now          asked_at       ms of its last turn; 0: never
  turn        ticket of that turn     blocked_until  ms, e.g. from Retry-After; 0: not blocked
  pages       pages done              shelved        pending, but out of reach of its page budget
  best        priority of the first request in its queue; NEVER: the queue is empty
  tied        at least this many at the head of the queue have that priority; 0: look there
  listed_in   DUE, WAIT or NOWHERE: the list the host is in, so that moving it costs one command
  own         optional fields: delay_ms, max_in_flight and max_pages in place of the job's,
              crawl_delay_ms from robots.txt, and what adapt.lua learned
]]
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
