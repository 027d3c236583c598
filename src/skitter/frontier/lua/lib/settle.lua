--[[
settle: move hosts to the right list, after any change to them or their queues.

  DUE      it has work, and a request may be sent now
  WAIT     it has work, and a request may be sent later
  NOWHERE  it has no work, max_in_flight is reached, or its budget is spent

KEYS   wait     zset   host -> ms
       queue    zset   one per host: fingerprint -> score
]]
--@include clock limits score host delay lane
local MAX_IN_FLIGHT, BUDGET = limits.max_in_flight, limits.max_pages_per_host
local NO_BUDGET = math.huge

local function look_at_queue(name, known)
  local head = redis.pcall('ZRANGE', queue .. name, 0, 0, 'WITHSCORES') -- an error reads as empty
  known.best = head[2] and priority_of(tonumber(head[2])) or NEVER
  known.tied = head[2] and redis.call('ZCOUNT', queue .. name, '-inf', last_score(known.best)) or 1
end

local function shelve(name, known, budget)
  local shelved = known.pages >= budget and tonumber(redis.pcall('ZCARD', queue .. name)) or 0
  count('shelved', shelved - known.shelved)
  known.shelved = shelved
end

-- The list a host belongs in, and its rank there.
local function list_for(name, known)
  local own, in_flight = known.own, known.in_flight
  local budget = own.max_pages or BUDGET
  if budget < NO_BUDGET or known.shelved > 0 then shelve(name, known, budget) end
  local clock = loaded[clock_name(name)] or peek(clock_name(name))
  local delay_ms = delay_of(clock)
  local spare = delay_ms == 0 and limits.spare or 0 -- set by spare.lua
  local allowed = own.max_in_flight or MAX_IN_FLIGHT + spare
  if in_flight >= allowed or known.pages + in_flight >= budget then
    return NOWHERE
  end
  if known.tied == 0 then look_at_queue(name, known) end
  if known.best == NEVER then return NOWHERE end
  local opens_at = clock.asked_at + (delay_ms == 0 and 0 or gap_of(clock))
  if opens_at < clock.blocked_until then opens_at = clock.blocked_until end
  if opens_at > now_ms then return WAIT, opens_at end
  -- Best priority first; among equals, the host whose last turn was longest ago.
  return DUE, score_of(known.best, known.turn)
end

-- The same, cached until the next call of `host`.
local function decide_list(name, known)
  known.next_list, known.next_rank = list_for(name, known)
  return known.next_list, known.next_rank
end

-- Twice as fast as table.insert, and every moved host passes here.
local function push(list, one, two)
  local length = #list
  list[length + 1], list[length + 2] = one, two
end

local function settle_hosts()
  local coming = { [due] = {}, [due_browser] = {}, [due_file] = {}, [wait] = {} }
  local going = { [due] = {}, [due_browser] = {}, [due_file] = {}, [wait] = {} }
  for name in pairs(unsettled) do
    local known = loaded[name]
    local was, list, rank = known.listed_in, known.next_list, known.next_rank
    if not list then list, rank = list_for(name, known) end
    if was ~= list and was ~= NOWHERE then
      if was ~= WAIT then push(going[due_for(name)], name) end
      if was ~= DUE then push(going[wait], name) end
    end
    if list == DUE then push(coming[due_for(name)], rank, name) end
    if list == WAIT then push(coming[wait], rank, name) end
    known.listed_in = list
  end
  unsettled = {}
  for key, names in pairs(going) do bulk('ZREM', key, names) end
  for key, ranked in pairs(coming) do bulk('ZADD', key, ranked) end
end
