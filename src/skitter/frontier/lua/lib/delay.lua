--[[
delay: how long a host is left alone between two requests.

It is the largest of: the configured delay (its own, or the job's), what its robots.txt asks for,
`latency_factor` times the time it takes to answer, shared out among those in flight, and what
incidents made of it (adapt.lua). A host without a delay is not slowed down by its latency: whoever
configured 0 wants it asked as fast as it answers.
]]
--@include limits host
local DAY_MS = 86400000 -- also for a job of an older release, which has no cap
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
