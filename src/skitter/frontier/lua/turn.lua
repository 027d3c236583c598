--[[
turn: reserve a moment to leave, on a clock that several hosts or jobs share: one delay after the
last moment granted. A rest imposed on one of them holds for all, and so does a limit on requests in
flight: each request holds a place until it gives it back or the place expires.

FLAGS  allow-oom
KEYS   clock       string `moment_ms delay_ms rest_ms`: the last moment granted, its caller's delay,
                          and the end of the rest; then `place=until_ms` for each in flight
ARGV   now         text   server ms; empty outside of tests and simulation
       moment_ms   int    an earlier grant that was not used; 0: none
       delay_ms    int    the delay to keep
       max_wait_ms int    the longest wait we accept; -1: reserve nothing
       for_ms      int    start a rest of this length; 0: none
       place       text   names the request; empty: it is not counted
       limit       int    how many may be in flight; 0: give the place back, -1: any number
       held_ms     int    how long a place is held at most
REPLY  ints   how long to wait, and the moment (0: the wait is too long, nothing is reserved)
COST   O(requests in flight)
]]
local FULL_MS = 250 -- when to ask again: there is no telling when a place becomes free
local time = redis.call('TIME')
local now_ms = tonumber(now) or time[1] * 1000 + math.floor(time[2] / 1000)
local stored = redis.call('GET', clock) or ''
local last_ms, gap_ms, rest_ms = string.match(stored, '^(%d+) (%d+) (%d+)')
last_ms, gap_ms, rest_ms = tonumber(last_ms) or 0, tonumber(gap_ms) or 0, tonumber(rest_ms) or 0

local under_way, held, others = {}, 0, 0
for id, ends in string.gmatch(stored, '(%S+)=(%d+)') do
  if id ~= place and tonumber(ends) > now_ms then
    others, held = others + 1, math.max(held, tonumber(ends))
    under_way[others] = ' ' .. id .. '=' .. ends
  end
end

if for_ms > 0 then rest_ms = math.max(rest_ms, now_ms + for_ms) end
-- An unused grant that is still the latest may be used late, without another delay.
local opens_at = now_ms
if moment_ms ~= last_ms then opens_at = last_ms + math.max(gap_ms, delay_ms) end
opens_at = math.max(now_ms, opens_at, rest_ms)
local is_full = place ~= '' and limit > 0 and others >= limit
local is_granted = not is_full and opens_at - now_ms <= max_wait_ms
if is_full then opens_at = math.max(opens_at, now_ms + FULL_MS) end
if is_granted then
  last_ms, gap_ms = opens_at, delay_ms
  if limit > 0 and place ~= '' then
    held = math.max(held, opens_at + held_ms)
    under_way[others + 1] = string.format(' %s=%d', place, opens_at + held_ms)
  end
end

-- Expire the clock as soon as it no longer constrains anybody.
local until_ms = math.max(last_ms + gap_ms, rest_ms, held, now_ms) + 1000
local record = string.format('%d %d %d', last_ms, gap_ms, rest_ms) .. table.concat(under_way)
redis.call('SET', clock, record, 'PX', until_ms - now_ms)
return { opens_at - now_ms, is_granted and opens_at or 0 }
