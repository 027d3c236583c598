--[[
claim_login: who logs a session in: one at a time, for the whole fleet. Whoever took it on and
vanished is replaced when his time is up; after a failure nobody tries for a while.

FLAGS  allow-oom
ARGV   name     text   site/class
       number   int    of the session
       claim    text   a name for this attempt at it
       ttl_ms   int    how long it is ours
REPLY  list   what, ms, text: `in` (it is logged in, for the ms-th time), `busy` (somebody else is
       at it), `rest` (for so many ms, and why), `gone` (it was retired), `yours`
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
