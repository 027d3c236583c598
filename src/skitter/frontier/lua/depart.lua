--[[
depart: report when requests left, and reserve the moment for the next one: one delay after the last
that left or was reserved. A host's delay runs from departure, not from the lease.

FLAGS  allow-oom
EACH   name        text  host
       moment_ms   int   our last unused turn or grant: still valid late, as long as nobody else has
                         had a turn since; 0: there is none, or it was used
       ago_ms      int   how long ago our last request left; -1: none did
       max_wait_ms int   the longest wait we accept; -1: reserve nothing
       hold_ms     int   how long after the wait we may still leave; others get no turn meanwhile
REPLY  ints   per group: ms to wait (-1: longer than max_wait_ms, or the host rests; nothing is
       reserved), and the moment granted, which is the end of the hold
COST   O(groups * log N)
]]
--@include once delay enqueue
local function grant(name, moment_ms, max_wait_ms, hold_ms)
  local known, opens_at = peek(name), now_ms
  if known.asked_at ~= moment_ms then
    opens_at = math.max(now_ms, known.asked_at + gap_of(known))
  end
  local has_rest = known.blocked_until > now_ms -- e.g. a Retry-After received since our turn
  if has_rest or opens_at - now_ms > max_wait_ms then return -1, 0 end
  put_off(name, opens_at + hold_ms)
  return opens_at - now_ms, opens_at + hold_ms
end

local reply = {}
for at = EACH.start, #ARGV, EACH.stride do
  local name, moment_ms = ARGV[at], tonumber(ARGV[at + 1])
  local ago_ms, max_wait_ms = tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  if ago_ms >= 0 then put_off(name, now_ms - ago_ms) end
  local wait_ms, granted_ms = 0, 0
  if max_wait_ms >= 0 then
    wait_ms, granted_ms = grant(name, moment_ms, max_wait_ms, tonumber(ARGV[at + 4]))
  end
  reply[#reply + 1], reply[#reply + 2] = wait_ms, granted_ms
end
commit()
return remember(reply)
