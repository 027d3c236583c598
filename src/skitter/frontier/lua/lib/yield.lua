--[[
yield: credit what a page yielded to its shape and to that of the page that led to it. A shape that
has yielded enough gets its held URLs back.
]]
--@include looks free
local function learn_yield(claim, said)
  if limits.shape_budget == math.huge then return end
  for number, credit in pairs(said.yields) do
    local entry, own = shape(claim.host, tonumber(number))
    local doublings = entry[2]
    entry[3] = entry[3] + math.max(0, credit)
    free_shape(own, grow(entry))
    if entry[2] > doublings then look_anew(look_name(claim.host, own)) end
  end
  write_shapes()
end
