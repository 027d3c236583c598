--[[
end_login: a session was logged in, with what that brought; or it was not. Refused from whoever
does not hold it any more.

FLAGS  allow-oom
ARGV   name     text   site/class
       number   int    of the session
       claim    text
       reason   text   why it failed; empty: it did not
       rest_ms  int    after a failure: the first rest; each further one is twice as long. 0: it was
                       interrupted, and anybody may try
EACH   field    text   a cookie, or another part of the session
       value    text
REPLY  int    how often it was logged in, also when repeated; 0: it failed, or somebody else has it
COST   O(fields)
]]
--@include session
local LONGEST_MS = 3600000
local one = find_live(read_pool(name), number)
local key = one and key_of(name, one)
local held_by, login, ended, times, failures = unpack(key and redis.call('HMGET', key, 'claim',
  'login', 'ended', 'times', 'failures') or {})
if ended == claim then return tonumber(login) or 0 end
if not key or held_by ~= claim then return 0 end
redis.call('HDEL', key, 'claim', 'claim_until')
redis.call('HSET', key, 'ended', claim)
if reason ~= '' then
  failures = (tonumber(failures) or 0) + (rest_ms > 0 and 1 or 0)
  rest_ms = math.min(LONGEST_MS, rest_ms * 2 ^ math.min(math.max(failures - 1, 0), 20))
  redis.call('HSET', key, 'failures', failures, 'rest_until', now_ms + rest_ms, 'reason', reason)
  return 0
end
local fields = {}
for at = EACH.start, #ARGV do fields[#fields + 1] = ARGV[at] end
write_session(key, fields, {})
redis.call('HDEL', key, 'failures', 'rest_until', 'reason')
redis.call('HSET', key, 'login', (tonumber(times) or 0) + 1)
return redis.call('HINCRBY', key, 'times', 1)
