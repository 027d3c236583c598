--[[
damaged: bury a request whose record is missing or corrupt. The dead letter keeps the old record as
its body, so that people can inspect and drop it.

KEYS   task     hash   fingerprint -> record
]]
--@include record trouble host
local function bury_damaged(fp, name, record)
  redis.call('HSET', task, fp, pack_record(0, name, record or ''))
  bury(fp, trouble_of(fp), 'its record is gone, or damaged')
  count('damaged', 1)
end

local function give_up(fp, name, record)
  local known = host(name)
  known.in_flight = known.in_flight - 1
  bury_damaged(fp, name, record)
end

-- Those of the leased requests that have a sound record, and their records.
local function without_damaged(fps, from, records)
  local sound, kept = {}, {}
  for i, record in ipairs(records) do
    if record and string.find(record, SOUND) then
      sound[#sound + 1], kept[#kept + 1] = fps[i], record
    else
      give_up(fps[i], from[i], record)
    end
  end
  return sound, kept
end
