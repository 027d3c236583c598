--[[
delay: how long a host waits between requests.

delay: how long to leave a host alone between two requests.

It is the largest of: the configured delay (the host's own or the job's), the crawl delay in its
robots.txt, `latency_factor` times its latency divided by max_in_flight, and `raised_ms` after
incidents (adapt.lua). Latency does not slow down a host without a delay: a user who configures 0
wants requests sent as fast as the host answers.

turn_back: give a host's turn back that was leased for that moment and not used.

put_off: note that a request to a host left, or will leave, at that moment. A later one stays.
]]
--@include limits host lane clock
local DAY_MS = 86400000 -- the cap for jobs from an older release, which have no max_delay_ms
local MIN_SLACK_MS, MAX_SLACK_MS = 2, 10
local longest_ms = math.min(limits.max_delay_ms, DAY_MS)

local function configured_delay(known)
  return math.max(known.own.delay_ms or limits.delay_ms, known.own.crawl_delay_ms or 0)
end

-- The delay without incidents.
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

-- How late after its turn a request may leave without asking, where several may be in flight. The
-- client subtracts the millisecond that our clock rounds away. 0: it is alone, and reports when it
-- left.
local function slack_of(known, delay_ms)
  if (known.own.max_in_flight or limits.max_in_flight) == 1 then return 0 end
  return math.max(MIN_SLACK_MS, math.min(MAX_SLACK_MS, math.floor(delay_ms / 20)))
end

-- From one turn to the next: the delay plus the slack, so that a late and a punctual departure are
-- still one delay apart.
local function gap_of(known)
  local delay_ms = delay_of(known)
  return delay_ms == 0 and 0 or delay_ms + slack_of(known, delay_ms)
end

local function give_turn_back(name, moment_ms)
  local clock = peek(clock_name(name))
  if moment_ms > 0 and clock.asked_at == moment_ms then
    host(name)
    host(clock_name(name)).asked_at = moment_ms - gap_of(clock)
  end
end

local function put_off(name, moment_ms)
  local clock = clock_name(name)
  if moment_ms > peek(clock).asked_at then host(clock).asked_at = moment_ms end
end
