--[[
commit: the last step of a script that writes: move each host it touched to the right list, then
write each host and counter once.
]]
--@include enqueue
local function commit()
  settle_all()
  local packed = {}
  for name in pairs(touched) do
    packed[#packed + 1] = name
    packed[#packed + 1] = pack_host(loaded[name])
  end
  bulk('HSET', hosts, packed)
  write_counters()
end
