--[[
waits: measure how long requests wait in the queue. Tickets give the order of arrival, and marks the
time at which some tickets were drawn. One request of a lease is the sample for all of them.

KEYS   marks    zset   ms -> the last ticket drawn before
]]
--@include score clock slots
-- `scores` of the leased requests, as text; each stands for `weight`.
local function note_wait(scores, weight)
  local ticket = place_in_line(tonumber(scores[issued % #scores + 1]) % TICKETS)
  local before = '(' .. as_int(ticket)
  local since = redis.pcall('ZRANGE', marks, before, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, 1)[1]
  since = tonumber(since)
  if not since then return end
  local waited_ms, many = math.max(0, now_ms - since), #scores * weight
  add_timing('queue_wait', { waited_ms * 1000 * many, bucket_of(waited_ms), many })
end
