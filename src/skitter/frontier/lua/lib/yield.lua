--[[
yield: what a page brought counts for its shape, and for that of the page that led to it. A shape
that has yielded enough frees what was held of it.
]]
--@include shapes free
local function learn_yield(claim, said)
  if limits.shape_budget == math.huge then return end
  for number, credit in pairs(said.yields) do
    local entry, own = shape(claim.host, tonumber(number))
    entry[3] = entry[3] + credit
    free_shape(own, grow(entry))
  end
  write_shapes()
end
