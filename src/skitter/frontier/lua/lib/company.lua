--[[
company: whether a request was alone in its process. A caller that works on several at once says so,
and its token gets a mark; when it has nothing else in hand, it has the mark dropped (extend.lua).
]]
--@include limits
local IN_COMPANY = '~'

local function was_in_company(token) return string.sub(token, -1) == IN_COMPANY end

local function unmarked(token) return (string.gsub(token, IN_COMPANY .. '$', '')) end

-- Count a loss of an entry of trouble.lua. Returns whether the request is to be buried.
local function blame(entry, alone)
  entry.losses = entry.losses + 1
  if alone then entry.alone = (entry.alone or 0) + 1 end
  local enough = math.max(1, limits.max_losses - 1)
  return entry.losses >= limits.max_losses and (entry.alone or 0) >= enough
end
