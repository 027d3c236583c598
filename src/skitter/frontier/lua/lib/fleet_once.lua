--[[
fleet_once: idempotent calls, as in answers.lua, for data that belongs to no job.

KEYS   recent   hash   verb -> number and answer of this client's last call
ARGV   seq      int    the client's number for this call
]]
local REMEMBER_MS = 600000

local function said_before()
  local number, answer = string.match(redis.call('HGET', recent, verb) or '', '^(%d+) (.*)$')
  if number and tonumber(number) > seq then
    error({ err = 'STALE this call was overtaken by a later one' })
  end
  return number and tonumber(number) == seq and cmsgpack.unpack(answer)
end

local function note_answer(answer)
  redis.call('HSET', recent, verb, string.format('%d ', seq) .. cmsgpack.pack(answer))
  redis.call('PEXPIRE', recent, REMEMBER_MS)
  return answer
end
