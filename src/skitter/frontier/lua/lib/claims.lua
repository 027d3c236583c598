--[[
claims: which of the leases in ARGV the caller still holds. A worker that was too slow finds another
token there, or none: it is fenced off, and nothing it sends has any effect.

KEYS   holder   hash   fingerprint -> token
       lease    zset   fingerprint -> ms
       task     hash   fingerprint -> record
       probation hash  fingerprint of a lease -> shape whose budget it uses: shapes.lua
]]
--@include bulk counters expect host record
--@late shapes
-- One claim per group of ARGV, whose second value is the token; `record` is false if the lease is
-- lost. `how_many` defaults to all groups.
local function read_claims(how_many)
  expect('zset', lease)
  expect('hash', probation)
  read_counter('late') -- all counters, which are written last
  local claims, fps = {}, {}
  for i = 0, (how_many or (#ARGV - EACH.start + 1) / EACH.stride) - 1 do
    local at = EACH.start + i * EACH.stride
    claims[i + 1], fps[i + 1] = { at = at, fp = ARGV[at], record = false, host = false }, ARGV[at]
  end
  local tokens, records = bulk_read('HMGET', holder, fps), bulk_read('HMGET', task, fps)
  local taken = {}
  for i = 1, #claims do
    local claim = claims[i]
    -- The same lease twice in one call: the first one counts.
    local held = tokens[i] == ARGV[claim.at + 1] and not taken[claim.fp]
    -- A corrupt record names no host: leave it to `reap`.
    claim.host = held and records[i] and host_of(records[i])
    claim.record = claim.host and records[i]
    if claim.record then taken[claim.fp] = true else count('late', 1) end
  end
  return claims
end

-- End the leases; the caller decides what happens to the requests.
local function end_leases(claims)
  local fps, names = {}, {}
  for i = 1, #claims do
    local claim = claims[i]
    if claim.record then fps[#fps + 1], names[#names + 1] = claim.fp, claim.host end
  end
  load_hosts(names)
  for i = 1, #names do
    local name = names[i]
    local known = touch(name)
    if known.in_flight > 0 then known.in_flight = known.in_flight - 1 end -- 0: a rebuilt record
    -- Room for one more: a host in no list may now belong in one. A listed host keeps its place.
    if known.listed_in == NOWHERE then host(name) end
  end
  bulk('HDEL', holder, fps)
  bulk('ZREM', lease, fps)
  if redis.call('EXISTS', probation) == 1 then end_probation(fps, names) end
end
