--[[
undo: a page that was done, or dropped, no longer counts as that. Returns whether it was dropped.
]]
--@include counters host
-- Done pages without a record, and dropped ones, are known by the seen-set alone: a host that has no
-- page done can only have dropped ones.
local function take_off_done(name)
  local known = touch(name)
  local was_dropped = known.pages == 0 and read_counter('dropped') > 0
  if known.pages > 0 then known.pages = known.pages - 1 end -- 0: a rebuilt record
  count(was_dropped and 'dropped' or 'done', -1)
  return was_dropped
end
