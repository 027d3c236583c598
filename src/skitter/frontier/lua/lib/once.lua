--[[
once: if the call is a repeat, end the script here with its first answer.
]]
--@include answers
do
  local answer = answered()
  if answer then return answer end
end
