--[[
turn: a moment to leave, by a clock that several hosts or several jobs share: a delay after the last
one that was granted. A rest that any of them was asked for holds for all.

FLAGS  allow-oom
KEYS   clock     string `moment_ms delay_ms rest_ms`: the last moment granted, the delay of whoever
                        got it, and the end of the rest
ARGV   now       text   server ms; empty outside of tests and simulation
       moment_ms int    what was granted before, if it was not used; 0: nothing
       delay_ms  int    the delay that is wanted
       most_ms   int    the longest wait that we would take; -1: ask for no moment
       for_ms    int    begin a rest of this length; 0: none
REPLY  ints   how long to wait, and the moment (0: the wait is too long, nothing is reserved)
COST   O(1)
]]
local time = redis.call('TIME')
local now_ms = tonumber(now) or time[1] * 1000 + math.floor(time[2] / 1000)
local stored = redis.call('GET', clock) or ''
local last_ms, gap_ms, rest_ms = string.match(stored, '^(%d+) (%d+) (%d+)$')
last_ms, gap_ms, rest_ms = tonumber(last_ms) or 0, tonumber(gap_ms) or 0, tonumber(rest_ms) or 0

if for_ms > 0 then rest_ms = math.max(rest_ms, now_ms + for_ms) end
local opens_at = now_ms
if moment_ms ~= last_ms then opens_at = last_ms + math.max(gap_ms, delay_ms) end
opens_at = math.max(now_ms, opens_at, rest_ms)
local is_granted = opens_at - now_ms <= most_ms
if is_granted then last_ms, gap_ms = opens_at, delay_ms end

-- Nobody needs it after that: it goes by itself.
local until_ms = math.max(last_ms + gap_ms, rest_ms, now_ms) + 1000
redis.call('SET', clock, string.format('%d %d %d', last_ms, gap_ms, rest_ms), 'PX', until_ms - now_ms)
return { opens_at - now_ms, is_granted and opens_at or 0 }
