--[[
trap: which leases may be fetched, by the budgets of the shapes of their URLs. The others end here:
they are held until their shape has yielded enough.

FLAGS  allow-oom
EACH   fp       text
       token    text
       number   int    of the shape: shapes.py
       bred     int    1: it was found on a page of that shape; 0: elsewhere
       moment_ms int   when its host had its turn for it; a request that is held gives it back
REPLY  ints   per lease: 1 (it may be fetched), 2 (the same, and its shape shares a budget with
       others), 0 (it is held) or LOST; and how many further pages of its shape need no asking
COST   O(leases * log N), and the shapes of their hosts: at most 101 each
]]
--@include once claims delay lane looks free commit
local RICH, PART = 4, 4 -- at so many times its budget, a shape is trusted with a part of its room
local reply, held, admitted, trusted = {}, {}, {}, {}

local function trust(entry, number, room)
  if trusted[number] or 2 ^ entry[2] < RICH then return 0 end
  trusted[number] = true
  if redis.call('ZCOUNT', trapped, number, number) > 0 then return 0 end -- they come first
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
  if number == any_of(claim.host) then return 2, 0 end -- each page is of another shape
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
