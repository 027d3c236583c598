--[[
accept: decide about one request that somebody offers, and take it in if it is new. Without a
body it is only looked at: there is no room, and a new one has to come again.

KEYS   task     hash   fingerprint -> record
]]
--@include enqueue record seen_exact seen_bloom
local admit = limits.blocks and admit_bloom or admit_exact
local has_seen = limits.blocks and in_bloom or in_exact
local records = {}

local function accept(fp, name, priority, depth, body)
  if not limits.open then count('refused', 1) return CLOSED end
  if depth > limits.max_depth then count('refused', 1) return DEEP end
  if not body and not has_seen(fp) then return FULL end
  if not body or not admit(fp) then count('duplicates', 1) return SEEN end
  count('seen', 1)
  records[#records + 1] = fp
  records[#records + 1] = pack_record(priority, name, body)
  enqueue(fp, name, priority)
  return NEW
end

local function write_accepted()
  bulk('HSET', task, records)
  if not limits.blocks then grow_seen() end
end
