--[[
delay: how long a host is left alone between two requests.

It is the largest of: the configured delay (its own, or the job's), what its robots.txt asks for,
`latency_factor` times the time it takes to answer, shared out among those in flight, and what
incidents made of it (adapt.lua). A host without a delay is not slowed down by its latency: whoever
configured 0 wants it asked as fast as it answers.
]]
--@include limits host
local DAY_MS = 86400000 -- also for a job of an older release, which has no cap
local LEAST_SLACK_MS, MOST_SLACK_MS = 2, 10
local longest_ms = math.min(limits.max_delay_ms, DAY_MS)

local function configured_delay(known)
  return math.max(known.own.delay_ms or limits.delay_ms, known.own.crawl_delay_ms or 0)
end

-- What it wants while all is well.
local function usual_delay(known)
  local wanted, latency_ms = configured_delay(known), known.own.latency_ms
  if wanted == 0 or not latency_ms then return wanted end
  local at_once = known.own.max_in_flight or limits.max_in_flight
  local by_latency = math.ceil(limits.latency_factor * latency_ms / at_once)
  return math.max(wanted, math.min(by_latency, longest_ms))
end

local function delay_of(known)
  if known.own == NONE then return limits.delay_ms end
  return math.max(usual_delay(known), known.own.raised_ms or 0)
end

-- Where several requests may be under way, one leaves so long after its turn without asking, less
-- the millisecond that our clock leaves out. 0: it is alone, and tells when it left.
local function slack_of(known, delay_ms)
  if (known.own.max_in_flight or limits.max_in_flight) == 1 then return 0 end
  return math.max(LEAST_SLACK_MS, math.min(MOST_SLACK_MS, math.floor(delay_ms / 20)))
end

-- From one turn to the next: by the slack more than between two requests as they are sent.
local function gap_of(known)
  local delay_ms = delay_of(known)
  return delay_ms == 0 and 0 or delay_ms + slack_of(known, delay_ms)
end
