--[[
sift: bury requests whose record is missing or corrupt, here where the queue still tells their host.
A record that names a host passes: the client checks its body.

KEYS   task     hash   fingerprint -> record
]]
--@include bulk host record trouble
local SOUND = '^%-?%d+ %S' -- the cheapest useful check
local find = string.find

-- The dead letter keeps the old record as its body, so that people can inspect and drop it.
local function give_up(fp, name, record)
  local known = host(name)
  known.in_flight = known.in_flight - 1
  redis.call('HSET', task, fp, pack_record(0, name, record or ''))
  bury(fp, trouble_of(fp), 'its record is gone, or damaged')
  count('damaged', 1)
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
