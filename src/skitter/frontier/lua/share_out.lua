--[[
share_out: how many requests a job may begin on a machine that jobs share: in proportion to their
shares, among those that want some. A job that is ahead waits for those that have asked lately.

FLAGS  allow-oom
KEYS   shares   hash   of no job: job -> requests begun per share, and when it asked (below 0: it
                       has nothing to begin); by machine
ARGV   now      text   server ms; empty outside of tests and simulation
       machine  text
       job      text
       share    int
       wanted   int    at most this many
       unused   int    of those granted last: more than 0 says that it has no more to begin
REPLY  int    how many it may begin now
COST   O(jobs of the machine)
]]
--@include fleet_clock
local PRESENT_MS, AHEAD, KEPT_S = 500, 8, 60
local at = shares .. machine
local rows, served, asked_ms, least = redis.call('HGETALL', at), 0, 0, math.huge
for i = 1, #rows, 2 do
  local its, when = string.match(rows[i + 1], '^(%S+) (%S+)$')
  its, when = tonumber(its) or 0, tonumber(when) or 0
  if rows[i] == job then
    served, asked_ms = its, when
  elseif now_ms - when <= PRESENT_MS then
    least = math.min(least, its)
  elseif now_ms - math.abs(when) > 1000 * KEPT_S then
    redis.call('HDEL', at, rows[i])
  end
end

local alone = least == math.huge
-- Who had nothing to begin gets no credit for that time.
if now_ms - asked_ms > PRESENT_MS and not alone then served = math.max(served, least) end
served = served - unused / share
local granted = wanted
if not alone then
  local room = math.floor((math.min(least, served) + AHEAD - served) * share)
  granted = math.max(0, math.min(wanted, room))
end
local when = unused > 0 and -now_ms or now_ms -- below 0: it does not wait for its turn
redis.call('HSET', at, job, string.format('%.6f %.0f', served + granted / share, when))
redis.call('EXPIRE', at, KEPT_S)
return granted
