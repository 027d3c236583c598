--[[
enqueue: make requests pending and write what changed.

keeps_place: whether a host is in a list and one more request of that priority does not move it.
That is so for most hosts of an `add`, whose records are then not even unpacked.

enqueue: make a request pending, behind others of its priority (in a lifo job: in front of them).
`settle_all` writes it.

commit: the last step of a script that writes: move each host it touched to the right list, then
write each host and counter once.
]]
--@include host score bulk counters
--@late settle
local function keeps_place(name, priority)
  local known, tied, best, listed_in = loaded[name], nil, nil, nil
  if known or not packed_hosts[name] then
    known = known or peek(name)
    tied, best, listed_in = known.tied, known.best, known.listed_in
  else
    tied, best, listed_in = unpack_place(packed_hosts[name])
  end
  return (listed_in == DUE or listed_in == WAIT) and tied > 0 and priority <= best
end

local arrivals = {} -- host -> score, fingerprint, score, fingerprint, ...

local function rank_anew(known, priority, ticket)
  if known.turn == 0 then known.turn = ticket end
  if known.tied > 0 and priority > known.best then known.best, known.tied = priority, 1 end
end

local function enqueue(fp, name, priority)
  local ticket = draw_ticket()
  if not keeps_place(name, priority) then rank_anew(host(name), priority, ticket) end
  local list, score = arrivals[name], score_of(priority, place_in_line(ticket))
  if list then list[#list + 1], list[#list + 2] = score, fp else arrivals[name] = { score, fp } end
end

-- The key holds something other than a queue: replace it.
local function make_way(name, list)
  redis.call('DEL', queue .. name)
  bulk('ZADD', queue .. name, list)
  host(name).tied = 0
  count('damaged', 1)
end

-- Most hosts get one request at a time.
local function line_up_arrivals(name, list)
  if #list > 2 then return pcall(bulk, 'ZADD', queue .. name, list) end
  return type(redis.pcall('ZADD', queue .. name, list[1], list[2])) == 'number'
end

local function settle_all()
  local arrived = 0
  for name, list in pairs(arrivals) do
    arrived = arrived + #list / 2
    if not line_up_arrivals(name, list) then make_way(name, list) end
  end
  if arrived > 0 then mark_arrivals() end
  count('pending', arrived)
  arrivals = {}
  if next(unsettled) then settle_hosts() end
end

local function commit()
  settle_all()
  local packed = {}
  for name in pairs(touched) do
    packed[#packed + 1] = name
    packed[#packed + 1] = pack_host(loaded[name])
  end
  bulk('HSET', hosts, packed)
  write_counters()
end
