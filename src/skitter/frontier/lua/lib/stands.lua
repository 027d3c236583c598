--[[
stands: whether a host stands in a line, and one more request of that priority changes nothing about
it. Most hosts of an `add` do: they are not even unpacked.
]]
--@include host
local function stands(name, priority)
  local known, tied, best, listed_in = loaded[name], nil, nil, nil
  if known or not packed_hosts[name] then
    known = known or peek(name)
    tied, best, listed_in = known.tied, known.best, known.listed_in
  else
    tied, best, listed_in = unpack_place(packed_hosts[name])
  end
  return (listed_in == DUE or listed_in == WAIT) and tied > 0 and priority <= best
end
