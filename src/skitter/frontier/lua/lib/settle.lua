--[[
settle: put hosts where they belong, after any change to them or their queues.

  DUE      it has work and may be asked now
  WAIT     it has work and may be asked later
  NOWHERE  no work, as much in flight as allowed, or its budget is spent

KEYS   wait     zset   host -> ms
       queue    zset   one per host: fingerprint -> score
]]
--@include clock limits score host delay lane

local function best_of(name, known)
  if known.tied == 0 then
    local head = redis.pcall('ZRANGE', queue .. name, 0, 0, 'WITHSCORES') -- an error has no head
    known.best = head[2] and priority_of(tonumber(head[2])) or NEVER
    known.tied = head[2] and redis.call('ZCOUNT', queue .. name, '-inf', last_score(known.best)) or 1
  end
  return known.best
end

local function shelve(name, known, budget)
  local shelved = known.pages >= budget and tonumber(redis.pcall('ZCARD', queue .. name)) or 0
  count('shelved', shelved - known.shelved)
  known.shelved = shelved
end

-- The list that a host belongs in, and its rank there.
local function list_for(name, known)
  local budget = known.own.max_pages or limits.max_pages_per_host
  if budget < math.huge or known.shelved > 0 then shelve(name, known, budget) end
  local clock = peek(clock_name(name))
  local delay_ms = delay_of(clock)
  local spare = delay_ms == 0 and limits.spare or 0 -- spare.lua tells whose
  if known.in_flight >= (known.own.max_in_flight or limits.max_in_flight + spare)
    or known.pages + known.in_flight >= budget
    or best_of(name, known) == NEVER then return NOWHERE end
  local opens_at = math.max(clock.asked_at + delay_ms, clock.blocked_until)
  if opens_at > now_ms then return WAIT, opens_at end
  -- Best priority first; among equals the host whose last turn is longest ago.
  return DUE, score_of(known.best, known.turn)
end

-- The same, remembered until somebody asks for the host again.
local function decide_list(name, known)
  known.next_list, known.next_rank = list_for(name, known)
  return known.next_list, known.next_rank
end

-- Twice as fast as table.insert, and this is where hosts pass.
local function push(list, one, two)
  local length = #list
  list[length + 1], list[length + 2] = one, two
end

local function settle_hosts()
  local coming = { [due] = {}, [due_browser] = {}, [wait] = {} }
  local going = { [due] = {}, [due_browser] = {}, [wait] = {} }
  for name in pairs(unsettled) do
    local known = loaded[name]
    local was, list, rank = known.listed_in, known.next_list, known.next_rank
    if not list then list, rank = list_for(name, known) end
    if was ~= list and (was == DUE or was == UNKNOWN) then push(going[due_for(name)], name) end
    if was ~= list and (was == WAIT or was == UNKNOWN) then push(going[wait], name) end
    if list == DUE then push(coming[due_for(name)], rank, name) end
    if list == WAIT then push(coming[wait], rank, name) end
    known.listed_in = list
  end
  unsettled = {}
  for key, names in pairs(going) do bulk('ZREM', key, names) end
  for key, ranked in pairs(coming) do bulk('ZADD', key, ranked) end
end
