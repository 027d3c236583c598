--[[
take: the next requests to be fetched: the best priority first, and among equals one host after
the other, so that a huge host cannot starve a hundred small ones.

The best `most` hosts are taken off `due` at once. A host that may be asked again stands in line
again; nobody left in `due` can come before the `most` requests that are wanted.

A request that was lost so often that this is its last chance is handed out alone: if it is what
kills workers, it does not take the others of its batch along.
]]
--@include settle trouble
local function is_suspect(name)
  local head = redis.call('ZRANGE', queue .. name, 0, 0)[1]
  local losses = trouble_of(head).losses
  return losses > 0 and losses + 1 >= limits.max_losses
end

-- A host that may be asked again stands in line again, unless those in front of it are enough.
local function line_up(line, first, wanted, name, rank)
  local at = #line
  if at - first + 1 >= wanted and rank > line[at].rank then return end
  while at >= first and line[at].rank > rank do at = at - 1 end
  table.insert(line, at + 1, { name = name, rank = rank })
end

local function take_from(name)
  local known = host(name)
  local fp = redis.call('ZPOPMIN', queue .. name)[1]
  known.tied = known.tied - 1
  known.in_flight = known.in_flight + 1
  known.asked_at = now_ms
  known.turn = draw_ticket()
  return fp, place_of(name, known)
end

-- The best hosts, off `due` until they are settled again.
local function form_line(most)
  local best, names, line = redis.call('ZPOPMIN', due, most), {}, {}
  for i = 1, #best, 2 do names[#names + 1] = best[i] end
  load_hosts(names)
  for i, name in ipairs(names) do
    local known = host(name)
    known.place = NOWHERE
    -- A limit may have been lowered since the host was put there.
    if place_of(name, known) == DUE then
      line[#line + 1] = { name = name, rank = tonumber(best[2 * i]) }
    end
  end
  return line
end

local function take(most)
  local fps, first, wary = {}, 1, read_counter('lost') > 0
  local line = most > 0 and form_line(most) or {}
  while line[first] and #fps < most do
    local name = line[first].name
    local suspect = wary and is_suspect(name)
    if suspect and #fps > 0 then break end -- it will be the first of the next call
    first = first + 1
    local fp, place, rank = take_from(name)
    fps[#fps + 1] = fp
    if suspect then break end
    if place == DUE then line_up(line, first, most - #fps, name, rank) end
  end
  count('pending', -#fps)
  return fps
end
