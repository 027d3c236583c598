--[[
claim_callback: claim the callback that runs once when the job is finished, or renew the claim. A
claim expires, so another process can take over from one that crashed.

FLAGS  allow-oom
KEYS   callback hash    claim, until (ms), value
ARGV   claim    text   names this attempt
       ttl_ms   int    how long the claim lasts
REPLY  list   wait, held, yours or done; with done, the callback's value
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
