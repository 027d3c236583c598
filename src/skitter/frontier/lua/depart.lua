--[[
depart: the clock of a host starts when a request leaves, not when it is handed out. Tells when
requests have left, and asks for a moment to leave: a delay after the last one that left or will.

FLAGS  allow-oom
EACH   name      text  host
       moment_ms int   when our turn was, or what was granted before: as long as nobody had another
                       since, it is ours to use late; 0: there is none, or it was used
       ago_ms    int   so long ago our last request left; -1: none did
       most_ms   int   the longest wait that we would take; -1: ask for none
       hold_ms   int   so long after the wait we may leave; nobody else has a turn meanwhile
REPLY  ints   per group: how long to wait (-1: not within most_ms, or the host has a rest; nothing
       is reserved), and the moment, which is the end of the hold
COST   O(groups * log N)
]]
--@include once put_off delay commit
local function grant(name, moment_ms, most_ms, hold_ms)
  local known, opens_at = peek(name), now_ms
  if known.asked_at ~= moment_ms then
    opens_at = math.max(now_ms, known.asked_at + gap_of(known))
  end
  local has_rest = known.blocked_until > now_ms -- e.g. Retry-After, heard since we had our turn
  if has_rest or opens_at - now_ms > most_ms then return -1, 0 end
  put_off(name, opens_at + hold_ms)
  return opens_at - now_ms, opens_at + hold_ms
end

local reply = {}
for at = EACH.start, #ARGV, EACH.stride do
  local name, moment_ms = ARGV[at], tonumber(ARGV[at + 1])
  local ago_ms, most_ms = tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  if ago_ms >= 0 then put_off(name, now_ms - ago_ms) end
  local wait_ms, granted_ms = 0, 0
  if most_ms >= 0 then
    wait_ms, granted_ms = grant(name, moment_ms, most_ms, tonumber(ARGV[at + 4]))
  end
  reply[#reply + 1], reply[#reply + 2] = wait_ms, granted_ms
end
commit()
return remember(reply)
