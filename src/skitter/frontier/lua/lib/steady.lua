--[[
steady: keep the job's clock steady while workers lease, even if the server's clock is set.

A client that has leased knows what time it was for the job, and how long ago by its own monotonic
clock. It vouches for their sum: if the job's clock is ahead of that, the server's was set forward.
If nobody vouches, as after a night without workers, the time has passed; a client that was left
behind by then cannot vouch either, until it leases again. The job's clock never jumps back.

What a call spends on its way counts as not passed, as while the server is down: leases last longer
by that. Whichever call of a client that leases comes first corrects the clock, before it stores a
moment that is hours ahead.

KEYS   control  hash   clock: job ms, at most a second behind the last call of a client that leases;
                       shift: job ms - server ms
ARGV   vouched_ms int  the job's time by the clock of this client; -1: it has not leased yet
]]
--@include clock
local EVERY_MS, TOLERANCE_MS = 1000, 5000
local clock_ms = tonumber(limits.clock)

-- By how much the server's clock jumped ahead of real time; negative: it jumped back.
local function jump()
  if not clock_ms then return 0 end
  if now_ms < clock_ms - TOLERANCE_MS then return now_ms - clock_ms end
  if vouched_ms < math.max(0, clock_ms - TOLERANCE_MS) then return 0 end
  local ahead_ms = now_ms - math.max(vouched_ms, clock_ms)
  return ahead_ms > TOLERANCE_MS and ahead_ms or 0
end

local function keep_steady()
  local jumped = jump()
  if jumped ~= 0 then
    now_ms = now_ms - jumped
    redis.call('HSET', control, 'shift', string.format('%d', now_ms - wall_ms))
  end
  if (verb == 'lease' or vouched_ms >= 0) and (not clock_ms or now_ms - clock_ms >= EVERY_MS) then
    redis.call('HSET', control, 'clock', string.format('%d', now_ms))
  end
end
