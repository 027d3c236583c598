--[[
steady: the job's clock goes on evenly while somebody leases, whatever happens to the server's.

Backwards it never goes. Forward it goes no further than a client that leases again and again saw
time pass. What nobody saw, a night without workers, has passed. Time that the server was away, and
clients waited for it, may be left out: leases are not lost by that.

KEYS   control  hash   clock: job ms, at most a second behind; shift: job ms - server ms
ARGV   since_ms int    since the client last leased, by its own clock; -1: it has not, or cannot say
]]
--@include clock
local EVERY_MS, TOLERANCE_MS = 1000, 5000
local clock_ms = tonumber(limits.clock)

-- How much further the clock went than time did; negative: it went back.
local function jump(passed_ms)
  if passed_ms < -TOLERANCE_MS then return passed_ms end
  if since_ms >= 0 and passed_ms > since_ms + TOLERANCE_MS then return passed_ms - since_ms end
  return 0
end

local function keep_steady()
  if tonumber(now) and since_ms < 0 then return end -- a simulation, which tells the time itself
  local jumped = clock_ms and jump(now_ms - clock_ms) or 0
  now_ms = now_ms - jumped
  if jumped ~= 0 then redis.call('HSET', control, 'shift', string.format('%d', now_ms - wall_ms)) end
  if not clock_ms or now_ms - clock_ms >= EVERY_MS then
    redis.call('HSET', control, 'clock', string.format('%d', now_ms))
  end
end
