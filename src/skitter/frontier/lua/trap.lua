--[[
trap: decide which leases may be fetched, by the budgets of their URL shapes. The others end here:
their requests are held until the shape has yielded enough.

FLAGS  allow-oom
EACH   fp       text
       token    text
       number   int    of the shape: shapes.py
       bred     int    1: found on a page of the same shape; 0: found elsewhere
       moment_ms int   its host's turn that it was leased in; a held request gives the turn back
REPLY  ints   per lease: 1 (fetch it), 2 (fetch it; its shape shares a budget with others), 0 (held)
       or LOST; and how many further pages of its shape may be fetched without asking
COST   O(leases * log N), plus the shapes of their hosts: at most 101 each
]]
--@include once claims delay lane looks free commit
-- Once its budget has grown RICH times, a shape may use 1/PART of its room without asking.
local RICH, PART = 4, 4
local reply, held, admitted, trusted = {}, {}, {}, {}

local function trust(entry, number, room)
  if trusted[number] or 2 ^ entry[2] < RICH then return 0 end
  trusted[number] = true
  if redis.call('ZCOUNT', trapped, number, number) > 0 then return 0 end -- held ones come first
  local ahead = math.floor(room / PART)
  entry[1] = entry[1] + ahead
  return ahead
end

local function give_turn_back(claim)
  local clock, moment_ms = peek(clock_name(claim.host)), tonumber(ARGV[claim.at + 4])
  if moment_ms > 0 and clock.asked_at == moment_ms then
    host(claim.host)
    host(clock_name(claim.host)).asked_at = moment_ms - gap_of(clock)
  end
end

local function judge(claim)
  local entry, number = shape(claim.host, tonumber(ARGV[claim.at + 2]))
  local room = grow(entry)
  if room <= 0 then
    held[#held + 1] = claim
    redis.call('ZADD', trapped, number, claim.fp)
    await_look(claim.host, number)
    give_turn_back(claim)
    return 0, 0
  end
  entry[1] = entry[1] + 1
  entry[4] = (entry[4] or 0) + (ARGV[claim.at + 3] == '1' and 1 or -1)
  admitted[#admitted + 1], admitted[#admitted + 2] = claim.fp, number
  free_shape(number, room - 1)
  if number == any_of(claim.host) then return 2, 0 end -- the next page will have another shape
  return 1, trust(entry, number, room - 1)
end

for i, claim in ipairs(read_claims()) do
  reply[2 * i - 1], reply[2 * i] = LOST, 0
  if claim.record then reply[2 * i - 1], reply[2 * i] = judge(claim) end
end
bulk('HSET', probation, admitted)
end_leases(held)
write_shapes()
commit()
return remember(reply)
