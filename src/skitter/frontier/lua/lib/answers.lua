--[[
answers: a call that is repeated, because its reply was lost, gets the first answer again.

A client numbers its calls and has one of each verb under way at a time, so the last answer per
verb is all there is to remember.

KEYS   recent   hash   verb -> number and answer of this client's last call
ARGV   seq      int    the client's number for this call
]]
--@include limits
local REMEMBER_MS = 600000

local function answered()
  local last = redis.call('HGET', recent, verb)
  if not last then return nil end
  local number, answer = string.match(last, '^(%d+) (.*)$')
  number = tonumber(number)
  if number == seq then
    redis.call('PEXPIRE', recent, REMEMBER_MS) -- WAIT behind a repeat waits for a write: replication.py
    return cmsgpack.unpack(answer)
  end
  -- An older call was on its way while the client gave up on it and went on.
  if number > seq then error({ err = 'STALE this call was overtaken by a later one' }) end
end

local function remember(answer)
  redis.call('HSET', recent, verb, string.format('%d ', seq) .. cmsgpack.pack(answer))
  redis.call('PEXPIRE', recent, REMEMBER_MS)
  return answer
end
