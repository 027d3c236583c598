--[[
adopt: mark requests as already done elsewhere, so that they are not fetched again.

EACH   fp       text
REPLY  ints   a code per fingerprint: NEW, or SEEN if already known
COST   O(fingerprints); one split of at most 512 fingerprints per 200 new ones
]]
--@include once accept enqueue
local codes, new = {}, 0
for at = EACH.start, #ARGV do
  local is_new = admit(ARGV[at])
  new = new + (is_new and 1 or 0)
  codes[#codes + 1] = is_new and NEW or SEEN
end
if new > 0 then -- a fingerprint does not reveal its host: book the pages under one made-up host
  local known = host('adopted')
  known.pages = known.pages + new
end
count('seen', new)
count('done', new)
write_accepted()
commit()
return remember(codes)
