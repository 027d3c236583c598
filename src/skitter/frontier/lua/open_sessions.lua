--[[
open_sessions: pick a session for each request from its pool, or start one while there is room.
Sessions that are too old, used up or refused too often are retired and deleted.

FLAGS  allow-oom
ARGV   size     int    the most sessions a pool may have
       uses     int    how many pages one session may fetch; -1: any number
       errors   int    how often one may be refused
       age_ms   int    how old one may be; -1: any age
       chance   int    where in the pool to start
EACH   name     text   site/class
       make     int    1: start a session if the pool has room; 0: only use what is there
       known    text   `number version` of the caller's copy; empty: it has none
REPLY  list   per request: number (0: none), version, errors, fields and values (empty if the
       caller's copy is current)
COST   O(requests * (sessions of the pool + fields))
]]
--@include session
local function is_spent(one)
  return one[4] >= errors or (uses >= 0 and one[3] >= uses)
    or (age_ms >= 0 and now_ms - one[2] >= age_ms)
end

local function retire_spent(name, found)
  local before = #found.live
  for i = before, 1, -1 do
    if is_spent(found.live[i]) then
      redis.call('DEL', key_of(name, found.live[i]))
      table.remove(found.live, i)
    end
  end
  return #found.live < before
end

local function open(name, make, known, turn)
  local found = read_pool(name)
  local changed = retire_spent(name, found)
  if make and #found.live < size then
    begin_session(found)
    changed = true
  end
  local one = found.live[(chance + turn) % math.max(1, #found.live) + 1]
  if one and uses >= 0 then
    one[3] = one[3] + 1
    changed = true
  end
  if changed then write_pool(name, found) end
  if not one then return { 0, 0, '0', {} } end
  if not changed then -- write_pool has not renewed these
    redis.call('PEXPIRE', pool .. name, IDLE_MS)
    redis.call('PEXPIRE', sessions, IDLE_MS)
  end
  redis.call('PEXPIRE', key_of(name, one), IDLE_MS)
  local version = tonumber(redis.call('HGET', key_of(name, one), 'v')) or 0
  local is_known = known == string.format('%d %d', one[1], version)
  local fields = is_known and {} or read_session(key_of(name, one))
  return { one[1], version, tostring(one[4]), fields }
end

local reply = {}
for at = EACH.start, #ARGV, EACH.stride do
  reply[#reply + 1] = open(ARGV[at], ARGV[at + 1] == '1', ARGV[at + 2], #reply)
end
return reply
