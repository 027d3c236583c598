--[[
accept: decide on one offered request, and take it in if it is new and there is room. Without room a
new request is not marked as seen, so it can be offered again. ARGV from `at`: fingerprint, host,
priority, depth, record.

KEYS   task     hash   fingerprint -> record
]]
--@include depth enqueue record seen
local records = {}

-- Few distinct priorities and depths occur, and a lookup is ten times faster than tonumber.
local numbers = {}

local function to_number(text)
  numbers[text] = numbers[text] or tonumber(text)
  return numbers[text]
end

local function accept(at, has_room)
  local fp, depth = ARGV[at], to_number(ARGV[at + 3])
  if not limits.open then
    count('refused', 1)
    if not has_seen(fp) then count('refused by drain', 1) end -- it is lost, unless offered again
    return CLOSED
  end
  if depth > limits.max_depth then count('refused', 1) return DEEP end
  if not has_room and not has_seen(fp) then return FULL end
  if not has_room or not admit(fp) then
    count('duplicates', 1)
    if keeps_depths then find_again(fp, depth) end
    return SEEN
  end
  if keeps_depths then note_depth(fp, depth) end
  local length = #records
  records[length + 1], records[length + 2] = fp, ARGV[at + 4]
  enqueue(fp, ARGV[at + 1], to_number(ARGV[at + 2]))
  return NEW
end

local function write_accepted()
  count('seen', #records / 2)
  bulk('HSET', task, records)
  grow_seen()
end
