--[[
take: the next requests to be fetched: the best priority first, and among equals one host after
the other, so that a huge host cannot starve a hundred small ones.

The best `most` hosts are taken off `due` at once. A host that may be asked again stands in line
again; nobody left in `due` can come before the `most` requests that are wanted.
]]
--@include settle
local function line_up(line, name, rank)
  local at = #line
  while at > 0 and line[at].rank > rank do at = at - 1 end
  table.insert(line, at + 1, { name = name, rank = rank })
end

local function take_from(name)
  local known = host(name)
  local fp = redis.call('ZPOPMIN', queue .. name)[1]
  known.best = nil
  known.in_flight = known.in_flight + 1
  known.next_at = now_ms + (known.delay_ms or limits.delay_ms)
  known.turn = draw_ticket()
  return fp, place_of(name, known)
end

local function take(most)
  local line, fps, names = {}, {}, {}
  if most <= 0 then return fps end
  local best = redis.call('ZPOPMIN', due, most)
  for i = 1, #best, 2 do names[#names + 1] = best[i] end
  load_hosts(names)
  for i, name in ipairs(names) do
    local known = host(name)
    known.place = NOWHERE -- off `due`, until settled
    -- A limit may have been lowered since the host was put there.
    if place_of(name, known) == DUE then line[#line + 1] = { name = name, rank = tonumber(best[2 * i]) } end
  end
  while #line > 0 and #fps < most do
    local name = table.remove(line, 1).name
    local fp, place, rank = take_from(name)
    fps[#fps + 1] = fp
    if place == DUE then line_up(line, name, rank) end
  end
  count('pending', -#fps)
  return fps
end
