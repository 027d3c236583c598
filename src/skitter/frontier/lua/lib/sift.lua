--[[
sift: bury requests whose record is missing or corrupt, here where the queue still tells their host.
A record that names a host passes: the client checks its body.

KEYS   task     hash   fingerprint -> record
]]
--@include bulk host damaged
local SOUND = '^%-?%d+ %S' -- the cheapest useful check
local find = string.find

local function give_up(fp, name, record)
  local known = host(name)
  known.in_flight = known.in_flight - 1
  bury_damaged(fp, name, record)
end

local function without_damaged(fps, from, records)
  local sound, kept = {}, {}
  for i, record in ipairs(records) do
    if record and find(record, SOUND) then
      sound[#sound + 1], kept[#kept + 1] = fps[i], record
    else
      give_up(fps[i], from[i], record)
    end
  end
  return sound, kept
end

-- The fingerprints that can be handed out, and their records in the same order.
local function sift(fps, from)
  local records = bulk_read('HMGET', task, fps)
  for i = 1, #fps do
    local record = records[i]
    if not record or not find(record, SOUND) then return without_damaged(fps, from, records) end
  end
  return fps, records
end
