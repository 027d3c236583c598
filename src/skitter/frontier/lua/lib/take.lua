--[[
take: the next requests to be fetched: the best priority first, and among equals one host after
the other, so that a huge host cannot starve a hundred small ones.

The best `most` hosts are taken off `due` at once. A host that may be asked again stands in line
again; nobody left in `due` can come before the `most` requests that are wanted.

A request that was lost so often that this is its last chance is handed out alone: if it is what
kills workers, it does not take the others of its batch along.

ARGV   lane     text   browser, or empty for plain HTTP: lane.lua
]]
--@include settle trouble waits
local function is_suspect(name)
  local head = redis.pcall('ZRANGE', queue .. name, 0, 0)[1]
  local losses = head and trouble_of(head).losses or 0
  return losses > 0 and losses + 1 >= limits.max_losses
end

-- The hosts whose turn it is, best first: names, and their ranks beside them.
local line = { names = {}, ranks = {}, first = 1 }

-- Behind those that rank better; nowhere if those in front of it are enough.
local function line_up(name, rank, wanted)
  local names, ranks, at = line.names, line.ranks, #line.names
  if at - line.first + 1 >= wanted and rank > ranks[at] then return end
  while at >= line.first and ranks[at] > rank do at = at - 1 end
  table.insert(names, at + 1, name)
  table.insert(ranks, at + 1, rank)
end

local function take_from(name)
  local known, popped = loaded[name], redis.pcall('ZPOPMIN', queue .. name) -- form_line's `host`
  local fp, score = popped[1], popped[2]
  if not fp then -- its queue is gone, or is none
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

-- The best hosts, off `due` until they are settled again.
local function form_line(most)
  local best, names = redis.call('ZPOPMIN', lane == '' and due or due_browser, most), {}
  for i = 1, #best, 2 do names[#names + 1] = best[i] end
  load_hosts(names)
  for i = 1, #names do
    -- A limit may have been lowered since the host was put there.
    if decide_list(names[i], host_in_line(names[i], NOWHERE)) == DUE then
      local length = #line.names + 1
      line.names[length], line.ranks[length] = names[i], tonumber(best[2 * i])
    end
  end
end

-- Up to `most` fingerprints, and the host of each beside it.
local function take(most)
  local fps, from, wary = {}, {}, read_counter('lost') > 0
  if most > 0 then form_line(most) end
  while line.names[line.first] and #fps < most do
    local name = line.names[line.first]
    local suspect = wary and is_suspect(name)
    if suspect and #fps > 0 then break end -- it will be the first of the next call
    line.first = line.first + 1
    local fp, list, rank = take_from(name)
    if fp then fps[#fps + 1], from[#from + 1] = fp, name end
    if suspect then break end
    if list == DUE then line_up(name, rank, most - #fps) end
  end
  count('pending', -#fps)
  note_wait()
  return fps, from
end
