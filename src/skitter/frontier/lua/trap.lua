--[[
trap: decide which leases may be fetched, by the budgets of their URL shapes. The others end here:
their requests are held until the shape has yielded enough, or until nothing else is left. Those for
a handler that no worker has are held until a worker has it.

FLAGS  allow-oom
EACH   fp       text
       token    text
       number   int    of the shape (patterns.py); below 0: of a handler that no worker has
       moment_ms int   its host's turn that it was leased in; a held request gives the turn back
REPLY  ints   per lease: 1 (fetch it), 0 (held) or LOST; and how many further pages of its shape may
       be fetched without asking
COST   O(leases * log N), plus the shapes of their hosts: at most 101 each
]]
--@include once claims delay shapes free enqueue
-- A worker may fetch so many more pages of a shape without asking. If it dies, they are lost to the
-- budget, so it is a part of what is left.
local AHEAD, PART = 100, 4
local reply, held, admitted, trusted = {}, {}, {}, {}

local function trust(entry, number, room)
  if trusted[number] then return 0 end
  trusted[number] = true
  if redis.call('ZCOUNT', trapped, number, number) > 0 then return 0 end -- held ones come first
  local ahead = math.min(AHEAD, math.floor(room / PART))
  entry[1] = entry[1] + ahead
  return ahead
end

local function hold(claim, number)
  held[#held + 1] = claim
  redis.call('ZADD', trapped, number, claim.fp)
  give_turn_back(claim.host, tonumber(ARGV[claim.at + 3]))
  return 0, 0
end

local function judge(claim)
  local asked = tonumber(ARGV[claim.at + 2])
  if asked < 0 then return hold(claim, asked) end
  local entry, number = shape(claim.host, asked)
  local room = grow(entry)
  if room <= 0 then
    await_look(claim.host, number, entry)
    return hold(claim, number)
  end
  entry[1] = entry[1] + 1
  admitted[#admitted + 1], admitted[#admitted + 2] = claim.fp, number
  free_shape(number, room - 1)
  if number == any_of(claim.host) then return 1, 0 end -- the next page will have another shape
  return 1, trust(entry, number, room - 1)
end

expect('zset', trapped, looks, due, due_browser, due_file, wait)
expect('hash', hosts)
for i, claim in ipairs(read_claims()) do
  reply[2 * i - 1], reply[2 * i] = LOST, 0
  if claim.record then reply[2 * i - 1], reply[2 * i] = judge(claim) end
end
bulk('HSET', probation, admitted)
end_leases(held)
write_shapes()
commit()
return remember(reply)
