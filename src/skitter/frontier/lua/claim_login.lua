--[[
claim_login: claim the login of a session: one worker of the fleet at a time. A claim expires, so
another worker can take over from one that crashed; after a failure, logins back off.

FLAGS  allow-oom
ARGV   name     text   site/class
       number   int    of the session
       claim    text   names this attempt
       ttl_ms   int    how long the claim lasts
REPLY  list   what, number, text: `in` (logged in; the number counts its logins), `busy` (another
       worker is logging in), `rest` (ms of backoff left, and why), `gone` (retired), `yours`
COST   O(1)
]]
--@include session
local one = find_live(read_pool(name), number)
if not one then return { 'gone', 0, '' } end
local key = key_of(name, one)
local login, held_by, held_until, rest_until, reason = unpack(redis.call('HMGET', key, 'login',
  'claim', 'claim_until', 'rest_until', 'reason'))
if tonumber(login) then return { 'in', tonumber(login), '' } end
if held_by and held_by ~= claim and tonumber(held_until) > now_ms then return { 'busy', 0, '' } end
local rest_ms = (tonumber(rest_until) or 0) - now_ms
if rest_ms > 0 then return { 'rest', rest_ms, reason or '' } end
redis.call('HSET', key, 'claim', claim, 'claim_until', now_ms + ttl_ms)
redis.call('PEXPIRE', key, IDLE_MS)
return { 'yours', 0, '' }
