--[[
claim_callback: take on what runs once when nothing of the job is left to be done, or keep it for longer.
Whoever took it on and vanished is replaced when his time is up.

FLAGS  allow-oom
KEYS   callback hash    claim, until (ms), value
ARGV   claim    text   a name for this attempt at it
       ttl_ms   int    how long it is ours
REPLY  list   wait, held, yours or done; with done, the value
COST   O(1)
]]
--@include clock finished
local value = redis.call('HGET', callback, 'value')
if value then return { 'done', value } end
local held_by, expires = unpack(redis.call('HMGET', callback, 'claim', 'until'))
if held_by ~= claim then
  if not is_finished() then return { 'wait', '' } end
  if held_by and tonumber(expires) > now_ms then return { 'held', '' } end
end
redis.call('HSET', callback, 'claim', claim, 'until', now_ms + ttl_ms)
return { 'yours', '' }
