--[[
steady: keep the job's clock steady while workers lease, even if the server's clock is set.

It never jumps back, and never advances more than the clock of a client that leases did. If no such
client was watching, as in a night without workers, the time has passed. Time while the server was
down and clients waited may be left out: that costs no leases.

Whichever call of such a client comes first corrects the clock: moments that it would store, such as
that of a departure, were hours ahead when the next lease came.

KEYS   control  hash   clock: job ms, at most a second behind the last lease; shift: job ms - server
                       ms
ARGV   since_ms int    since the client last leased, by its own clock; -1: it never has, or unknown
]]
--@include clock
local EVERY_MS, TOLERANCE_MS = 1000, 5000
local clock_ms = tonumber(limits.clock)

-- By how much the clock jumped ahead of real time; negative: it jumped back.
local function jump(passed_ms)
  if passed_ms < -TOLERANCE_MS then return passed_ms end
  if since_ms >= 0 and passed_ms > since_ms + TOLERANCE_MS then return passed_ms - since_ms end
  return 0
end

local function keep_steady()
  if tonumber(now) and since_ms < 0 then return end -- a simulation sets the time itself
  local jumped = clock_ms and jump(now_ms - clock_ms) or 0
  now_ms = now_ms - jumped
  if jumped ~= 0 then redis.call('HSET', control, 'shift', string.format('%d', now_ms - wall_ms)) end
  if verb == 'lease' and (not clock_ms or now_ms - clock_ms >= EVERY_MS) then
    redis.call('HSET', control, 'clock', string.format('%d', now_ms))
  end
end
