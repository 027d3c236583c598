--[[
incident: an incident (a 429 or 503, a refused connection or a block page) doubles the delay of its
host; CLEAN clean answers take a tenth off again. It doubles only once per window, so that a burst of
bad pages is one incident. A window lasts as long as the rest the host asked for or the new delay,
whichever is longer, and at least WINDOW_MS; QUICK_MS while a host with a short delay gives no clean
answer at all.

A 503 or a refused connection may be about one page or one of several servers. Once the delay is
raised, such incidents do not raise it further if there were FEW times as many clean answers in the
window: being slower still would not help. A 429 and a block page are always about us.
]]
--@include clock counters delay
local CLEAN, BACK, SPREAD = 20, 0.9, 0.1
local LEAST_MS = 2 -- doubled if there is no delay and the host answers instantly
local WINDOW_MS, QUICK_MS, SHORT_MS = 10000, 2000, 1000
local PASSING = { [1] = true, [503] = true } -- a refused connection: delay.py
local FEW, COST = 4, 5 -- COST: such an incident takes back so many clean answers
local RAISED = { 'raised_ms', 'incident', 'window_ends', 'clean', 'bad', 'good' }

-- From 0 to 1, by host and time: the server seeds math.random alike for every script.
local function chance(name)
  return tonumber(string.sub(redis.sha1hex(name .. now_ms), 1, 4), 16) / 65535
end

local function is_in_window(own)
  local is_down = (own.good or 0) == 0 and (own.raised_ms or 0) < SHORT_MS
  return now_ms < (own.window_ends or 0) - (is_down and WINDOW_MS - QUICK_MS or 0)
end

local function note_incident(name, known, incident, latency_ms)
  local own, passing = known.own, PASSING[incident]
  own.bad = (own.bad or 0) + 1
  own.clean = passing and math.max(0, (own.clean or 0) - COST) or 0
  if is_in_window(own) then return end
  if not (passing and own.raised_ms and FEW * own.bad <= (own.good or 0)) then
    local base_ms = math.max(delay_of(known), latency_ms, LEAST_MS)
    own.raised_ms = math.floor(math.min(longest_ms, 2 * base_ms * (1 + SPREAD * chance(name))))
    own.incident = incident
    count('incidents', 1)
  end
  own.bad, own.good = 0, 0
  own.window_ends = math.max(now_ms + math.max(own.raised_ms, WINDOW_MS), known.blocked_until)
end

local function note_clean(known)
  local own = known.own
  own.good, own.clean = (own.good or 0) + 1, (own.clean or 0) + 1
  if own.clean < CLEAN then return end
  own.clean, own.raised_ms = 0, math.floor(BACK * own.raised_ms)
  if own.raised_ms > math.max(usual_delay(known), 2 * LEAST_MS) then return end
  for _, name in ipairs(RAISED) do own[name] = nil end
end
