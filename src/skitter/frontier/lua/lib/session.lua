--[[
session: the pool of sessions of a site and class, and what each session holds. A pool is created by
the first cookie or the first request that names a class, so jobs without sessions pay nothing. It
expires after a day without use.

KEYS   sessions string exists if there is a pool in this shard
       pool     string one per site/class: msgpack of last, live = { number, made, uses, errors }
       session  hash   one per site/class/number: v (its version), cookies and the rest, by name
]]
--@include clock
local IDLE_MS = 86400000
local MAX_FIELDS = 250 -- each client keeps fewer, but several may add fields at the same time

local function read_pool(name)
  local stored = redis.pcall('GET', pool .. name)
  local sound, found = pcall(cmsgpack.unpack, type(stored) == 'string' and stored or '')
  local is_pool = sound and type(found) == 'table' and found.last and type(found.live) == 'table'
  return is_pool and found or { last = 0, live = {} }
end

local function write_pool(name, found)
  redis.call('SET', pool .. name, cmsgpack.pack(found), 'PX', IDLE_MS)
  redis.call('SET', sessions, 1, 'PX', IDLE_MS)
end

local function begin_session(found)
  found.last = found.last + 1
  found.live[#found.live + 1] = { found.last, now_ms, 0, 0 }
  return found.live[#found.live]
end

-- The session of that number; 0: any.
local function find_live(found, number)
  for _, one in ipairs(found.live) do
    if one[1] == number or number == 0 then return one end
  end
end

local function key_of(name, one)
  return session .. name .. string.format('/%d', one[1])
end

-- Names and values. HRANDFIELD bounds the reply, whatever was written there.
local function read_session(key)
  return redis.call('HRANDFIELD', key, MAX_FIELDS + 20, 'WITHVALUES')
end

-- `fields`: name, value, ...; a full session takes no new names.
local function write_session(key, fields, gone)
  for _, field in ipairs(gone) do redis.call('HDEL', key, field) end
  for i = 1, #fields, 2 do
    if redis.call('HLEN', key) < MAX_FIELDS or redis.call('HEXISTS', key, fields[i]) == 1 then
      redis.call('HSET', key, fields[i], fields[i + 1])
    end
  end
  redis.call('HINCRBY', key, 'v', 1)
  redis.call('PEXPIRE', key, IDLE_MS)
end
