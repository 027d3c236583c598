--[[
keeps_place: whether a host is in a list and one more request of that priority does not move it.
That is so for most hosts of an `add`, whose records are then not even unpacked.
]]
--@include host
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
