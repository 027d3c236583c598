--[[
once: ends a script here if the call is a repeat, with the answer that it had the first time.
]]
--@include answers
do
  local answer = answered()
  if answer then return answer end
end
