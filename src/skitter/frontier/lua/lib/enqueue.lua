--[[
enqueue: make a request pending, behind others of its priority. It is written by `settle_all`.
]]
--@include settle
local arrivals = {} -- host -> score, fingerprint, score, fingerprint, ...

local function enqueue(fp, name, priority)
  local known, ticket = host(name), draw_ticket()
  known.turn = known.turn or ticket
  known.best = known.best and math.max(known.best, priority)
  local list = arrivals[name] or {}
  list[#list + 1] = score_of(priority, ticket)
  list[#list + 1] = fp
  arrivals[name] = list
  count('pending', 1)
end

local function settle_all()
  for name, list in pairs(arrivals) do bulk('ZADD', queue .. name, list) end
  arrivals = {}
  settle_hosts()
end
