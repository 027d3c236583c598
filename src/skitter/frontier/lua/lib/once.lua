--[[
once: if the call is a repeat, end the script here with its first answer. If not, it happens at the
right time.
]]
--@include answers steady
do
  local answer = answered()
  if answer then return answer end
  keep_steady()
end
