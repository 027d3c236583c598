--[[
turn_back: give a host's turn back that was leased for that moment and not used.
]]
--@include delay lane
local function give_turn_back(name, moment_ms)
  local clock = peek(clock_name(name))
  if moment_ms > 0 and clock.asked_at == moment_ms then
    host(name)
    host(clock_name(name)).asked_at = moment_ms - gap_of(clock)
  end
end
