--[[
take: take the next requests from the queues: best priority first and, among equals, hosts in turn,
so that a huge host cannot starve a hundred small ones.

The best `limit` hosts are popped from `due` with one command. That is enough, as each of them has a
request: none left in `due` can come before those. A host that stays due joins the line again.

A request on its last chance, after too many losses, is handed out alone: if it is what kills
workers, it does not take the rest of a batch with it.

KEYS   trouble  hash   fingerprint -> msgpack: trouble.lua
ARGV   lane     text   browser, file, or empty for plain HTTP: lane.lua
]]
--@include settle score
--@late trouble waits
local function is_suspect(name)
  local head = redis.pcall('ZRANGE', queue .. name, 0, 0)[1]
  local losses = head and trouble_of(head).losses or 0
  return losses > 0 and losses + 1 >= limits.max_losses
end

-- The hosts in turn, best first: names and, in the same order, ranks.
local line = { names = {}, ranks = {}, first = 1 }

-- Insert by rank; skip a host that would come after all those still wanted.
local function line_up(name, rank, wanted)
  local names, ranks, at = line.names, line.ranks, #line.names
  if at - line.first + 1 >= wanted and rank > ranks[at] then return end
  while at >= line.first and ranks[at] > rank do at = at - 1 end
  table.insert(names, at + 1, name)
  table.insert(ranks, at + 1, rank)
end

local taken = {} -- scores of the requests, as text

local function take_from(name)
  local known, popped = loaded[name], redis.pcall('ZPOPMIN', queue .. name) -- form_line loaded it
  local fp, score = popped[1], popped[2]
  if not fp then -- its queue is missing or corrupt
    count('damaged', 1)
    known.tied = 0
    return nil, decide_list(name, known)
  end
  taken[#taken + 1] = score
  known.tied = known.tied - 1
  known.in_flight = known.in_flight + 1
  host(clock_name(name)).asked_at = now_ms
  known.turn = draw_ticket()
  return fp, decide_list(name, known)
end

-- Pop the best hosts from `due`; `settle_hosts` puts them back.
local function form_line(limit)
  local best, names = redis.call('ZPOPMIN', due_in(lane), limit), {}
  for i = 1, #best, 2 do names[#names + 1] = best[i] end
  load_hosts(names)
  for i = 1, #names do
    -- A limit may have been lowered since the host became due.
    if decide_list(names[i], host_in_line(names[i], NOWHERE)) == DUE then
      local length = #line.names + 1
      line.names[length], line.ranks[length] = names[i], tonumber(best[2 * i])
    end
  end
end

-- For how many each of these requests stands in the figures of waits.lua. Measuring costs a sixth of
-- a lease of one, so of those leased one by one, a tenth is measured once a job is under way.
local SAMPLE, UNDER_WAY = 10, 1000

local function weight_of(fps)
  if #fps == 0 then return 0 end
  if #fps >= SAMPLE or read_counter('done') < UNDER_WAY then return 1 end
  return string.sub(fps[1], -1) == '0' and SAMPLE or 0
end

-- Up to `limit` fingerprints, and their hosts in the same order.
local function take(limit)
  local fps, from = {}, {}
  -- Without losses there are no suspects.
  local wary = read_counter('lost') > 0 and redis.call('EXISTS', trouble) == 1
  if limit > 0 then form_line(limit) end
  while line.names[line.first] and #fps < limit do
    local name = line.names[line.first]
    local suspect = wary and is_suspect(name)
    if suspect and #fps > 0 then break end -- the next call starts with it
    line.first = line.first + 1
    local fp, list, rank = take_from(name)
    if fp then fps[#fps + 1], from[#from + 1] = fp, name end
    if suspect then break end
    if list == DUE then line_up(name, rank, limit - #fps) end
  end
  count('pending', -#fps)
  local weight = weight_of(fps)
  if weight > 0 then note_wait(taken, weight) end
  return fps, from
end
