--[[
sift: what was taken from a queue and has no record that makes sense is given up at once, where its
host is known still. A record that names a host is for others to read.

KEYS   task     hash   fingerprint -> record
]]
--@include bulk host record trouble
local SOUND = '^%-?%d+ %S' -- as far as costs next to nothing
local find = string.find

-- It keeps what it had for a body, behind the name of its host: it can be seen and dropped.
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

-- Those of the fingerprints that can be handed out, and the record of each beside it.
local function sift(fps, from)
  local records = bulk_read('HMGET', task, fps)
  for i = 1, #fps do
    local record = records[i]
    if not record or not find(record, SOUND) then return without_damaged(fps, from, records) end
  end
  return fps, records
end
