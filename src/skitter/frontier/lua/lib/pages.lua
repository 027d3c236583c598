--[[
pages: the outcome of the latest pages, for `skitter why`.

KEYS   pages    hash   `new` and `old`: fingerprint -> `second client facts`
]]
--@include clock newest
local PAGES_KEPT = 100000
local done_pages = {}

local function learn_page(claim, facts)
  local client = string.match(ARGV[claim.at + 1], '^(.+)%.[^.]*%.[^.]*$') or '?'
  done_pages[#done_pages + 1] = claim.fp
  done_pages[#done_pages + 1] = math.floor(wall_ms / 1000) .. ' ' .. client .. ' ' .. facts
end

local function write_pages()
  keep_newest(pages, done_pages, PAGES_KEPT)
end
