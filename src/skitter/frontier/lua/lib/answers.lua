--[[
answers: make calls idempotent: one repeated because its reply was lost gets the same answer.

A client numbers its calls and runs one call of each verb at a time, so it is enough to store the
last answer per verb.

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
    redis.call('PEXPIRE', recent, REMEMBER_MS) -- a write for WAIT to wait for: replication.py
    return cmsgpack.unpack(answer)
  end
  -- The client gave up on this call and went on while it was still on its way.
  if number > seq then error({ err = 'STALE this call was overtaken by a later one' }) end
end

local function remember(answer)
  redis.call('HSET', recent, verb, string.format('%d ', seq) .. cmsgpack.pack(answer))
  -- Not at every call: this read takes less time than that write, and no space in the log of writes.
  if redis.call('PTTL', recent) < REMEMBER_MS / 2 then
    redis.call('PEXPIRE', recent, REMEMBER_MS)
  end
  return answer
end
