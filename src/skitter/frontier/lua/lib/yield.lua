--[[
yield: credit what a page yielded to its shape and to that of the page that led to it. A shape that
has yielded enough gets its held URLs back.

Negative credit is doubtful (worker/traps.py) and doubles a budget only a few times: a finite site
that looks like a maze is seldom larger than that, and a maze always is.
]]
--@include looks free
local NEWS, ITEMS = 1, 10
local DOUBLINGS = { [-NEWS] = 5, [-ITEMS] = 10 } -- for doubtful credit

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
