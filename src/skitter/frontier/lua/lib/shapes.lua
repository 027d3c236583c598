--[[
shapes: how many pages each shape of URLs may have. A budget is doubled when the pages of its latest
half have yielded enough (docs/adr/0027-traps-are-held-by-shape.md), or when a last look has shown
that the shape has an end (0042-a-last-look-at-what-is-held.md).

A host keeps at most MOST of its shapes; all further ones share one budget, so that random words do
not get past it.

KEYS   probation hash  fingerprint of a lease -> shape whose budget it uses
       trapped   zset  fingerprint -> shape
]]
--@include bulk limits shape_records
local MOST = 100
local NEEDED = 0.2 -- credit per page: worker/traps.py tells what a page is worth
local UNFINISHED = { lease = true, reap = true, reclaim = true, release = true, retry = true }

-- The number that stands for all further shapes of a host.
local function any_of(name) return tonumber(string.sub(redis.sha1hex(name), 1, 8), 16) end

-- What is known of a shape, and its number: that of all others, if the host has too many.
local function shape(name, number)
  local all, size = shapes_at(name), 0
  changed_shapes[name] = true
  if not all[number] then
    for _ in pairs(all) do size = size + 1 end
    if size >= MOST then number = any_of(name) end
    all[number] = all[number] or { 0, 0, 0, 0, 0 }
  end
  return all[number], number
end

local function budget_of(entry) return limits.shape_budget * 2 ^ entry[2] end

local function double(entry, credit) entry[2], entry[3] = math.min(40, entry[2] + 1), credit end

-- Doubles the budget if it is half spent and the pages that it was last raised by have paid for
-- it. What they have yielded beyond that counts once more, not for ever. Returns the room.
local function grow(entry)
  local due = budget_of(entry) / (entry[2] > 0 and 2 or 1) * NEEDED
  if entry[1] >= budget_of(entry) / 2 and entry[3] >= due and entry[2] < 40 then
    double(entry, math.min(entry[3] - due, due))
  end
  return budget_of(entry) - entry[1]
end

-- Leases end. The page of one that was not finished will be asked for again.
local function end_probation(fps, names)
  if #fps == 0 or redis.call('EXISTS', probation) == 0 then return end
  for i, number in ipairs(bulk_read('HMGET', probation, fps)) do
    local entry = number and UNFINISHED[verb] and shape(names[i], tonumber(number))
    if entry then entry[1] = math.max(0, entry[1] - 1) end
  end
  bulk('HDEL', probation, fps)
  write_shapes()
end
