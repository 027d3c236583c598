--[[
damaged: bury a request whose record is missing or corrupt. The dead letter keeps the old record as
its body, so that people can inspect and drop it.

KEYS   task     hash   fingerprint -> record
]]
--@include record trouble
local function bury_damaged(fp, name, record)
  redis.call('HSET', task, fp, pack_record(0, name, record or ''))
  bury(fp, trouble_of(fp), 'its record is gone, or damaged')
  count('damaged', 1)
end
