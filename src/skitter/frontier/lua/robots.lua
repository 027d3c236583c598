--[[
robots: ask for a host's robots.txt, or bring it: one worker fetches it for the whole fleet. An
expired answer is kept for a while: it tells how long the host has failed to serve a new one.

FLAGS  allow-oom
KEYS   robots   string one per host: `believed_until fetched_until answer`, both in ms
ARGV   name     text   host
       rules    bytes  empty: ask
       ttl_ms   int    ask: how long the caller has to fetch it; bring: how long it is valid
       keep_ms  int    how long to keep it after that
REPLY  any    ask: `known`, `asked` (another worker is fetching it) or `yours`, the last answer,
       and for how many more ms it is valid; bring: 1
COST   O(1)
]]
--@include once clock
local function keep(believed_until, fetched_until, value)
  local expires_at = math.max(value ~= '' and believed_until + keep_ms or 0, fetched_until)
  if expires_at <= now_ms then return redis.call('DEL', robots .. name) end
  redis.call('SET', robots .. name, string.format('%d %d ', believed_until, fetched_until) .. value,
    'PX', expires_at - now_ms)
end

local function read()
  local stored = redis.call('GET', robots .. name)
  local believed, fetched, value = string.match(stored or '', '^(%d+) (%d+) (.*)$')
  return tonumber(believed) or 0, tonumber(fetched) or 0, value or ''
end

local believed_until, fetched_until, last = read()
if rules ~= '' then
  keep(now_ms + ttl_ms, 0, rules)
  return remember(1)
end
if believed_until > now_ms then return { 'known', last, believed_until - now_ms } end
if fetched_until > now_ms then return { 'asked', '', 0 } end
keep(math.max(believed_until, now_ms), now_ms + ttl_ms, last)
return remember({ 'yours', last, 0 })
