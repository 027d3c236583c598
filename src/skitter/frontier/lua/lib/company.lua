--[[
company: whether a request was alone in its process. A caller that works on several at once says so,
and its token gets a mark; when it has nothing else in hand, it has the mark dropped (extend.lua).
]]
local IN_COMPANY = '~'

local function unmarked(token) return (string.gsub(token, IN_COMPANY .. '$', '')) end
