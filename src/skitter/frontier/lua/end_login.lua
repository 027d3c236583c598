--[[
end_login: store the outcome of a login: its cookies and other fields, or a failure. Only the holder
of the claim may do so.

FLAGS  allow-oom
ARGV   name     text   site/class
       number   int    of the session
       claim    text
       reason   text   why it failed; empty: it succeeded
       rest_ms  int    the backoff after a first failure; each further failure doubles it. 0: the
                       login was interrupted, and anybody may retry at once
EACH   field    text   a cookie, or another part of the session
       value    text
REPLY  int    how many logins the session has had, also for a repeated call; 0: the login failed,
       or the claim is another's
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
