--[[
adapt: adjust a host's delay to its answers: to the time they take, and to incidents (incident.lua).

The host's record keeps what is learned, so it outlives every worker: `latency_ms` (a moving
average), `raised_ms`, `incident` (its kind), `window_ends`, `bad` and `good` (answers in the
window), `clean` (answers on the way back).
]]
--@include delay incident lane
local WEIGHT = 0.2 -- of a new answer in the average
local LIMIT = 2 ^ 31

local function sound(number)
  return type(number) == 'number' and number >= 0 and number < LIMIT and math.floor(number) or nil
end

-- Stored only if it may affect the delay, so that a fast host costs no memory.
local function learn_latency(known, latency_ms)
  local own, before = known.own, known.own.latency_ms or latency_ms
  local average = math.floor(before + WEIGHT * (latency_ms - before) + 0.5)
  local matters = 2 * limits.latency_factor * average > configured_delay(known)
  own.latency_ms = matters and configured_delay(known) > 0 and average or nil
end

-- Call it after `block`: the window lasts at least as long as the rest the host asked for.
local function learn_delay(claim, said)
  local latency_ms, incident = sound(said.latency_ms), sound(said.incident)
  if not latency_ms and not incident then return end
  local name = clock_name(claim.host)
  local known = touch(name)
  local before = delay_of(known)
  if known.own == NONE then known.own = {} end
  if latency_ms then learn_latency(known, latency_ms) end
  if incident then
    note_incident(name, known, incident, latency_ms or 0)
  elseif known.own.raised_ms then
    note_clean(known)
  end
  if delay_of(known) ~= before then host(name) end
end
