--[[
yield: what a page brought counts for its shape, and for that of the page that led to it. A shape
that has yielded enough frees what was held of it.

Below zero, it is unsure (worker/traps.py): that doubles a budget a few times only. A finite site
that looks like a maze is seldom larger, and a maze always is.
]]
--@include looks free
local NEWS, ITEMS = 1, 10
local DOUBLINGS = { [-NEWS] = 5, [-ITEMS] = 10 } -- of what is unsure

local function learn_yield(claim, said)
  if limits.shape_budget == math.huge then return end
  for number, credit in pairs(said.yields) do
    local entry, own = shape(claim.host, tonumber(number))
    if entry[2] < (DOUBLINGS[credit] or math.huge) then entry[3] = entry[3] + math.abs(credit) end
    local doublings = entry[2]
    free_shape(own, grow(entry))
    if entry[2] > doublings then look_anew(look_name(claim.host, own)) end
  end
  write_shapes()
end
