--[[
session: the sessions of a site and class, and what each holds. Whoever has none pays for none: a
pool begins with the first cookie, or when a request names a class. All of it expires by itself when
nobody has used it for a day.

KEYS   sessions string there is a pool in this shard
       pool     string one per site/class: msgpack of last, live = { number, made, uses, errors }
       session  hash   one per site/class/number: v (its version), cookies and the rest, by name
]]
--@include clock
local IDLE_MS = 86400000
local MOST_FIELDS = 250 -- a client keeps fewer; several at a time may not know of each other

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

-- The one of that number; 0: whichever there is.
local function find_live(found, number)
  for _, one in ipairs(found.live) do
    if one[1] == number or number == 0 then return one end
  end
end

local function key_of(name, one)
  return session .. name .. string.format('/%d', one[1])
end

-- Names and values; not more than there can be, whoever wrote it.
local function read_session(key)
  return redis.call('HRANDFIELD', key, MOST_FIELDS + 20, 'WITHVALUES')
end

-- `fields`: name, value, ...; a full session takes no new ones.
local function write_session(key, fields, gone)
  for _, field in ipairs(gone) do redis.call('HDEL', key, field) end
  for i = 1, #fields, 2 do
    if redis.call('HLEN', key) < MOST_FIELDS or redis.call('HEXISTS', key, fields[i]) == 1 then
      redis.call('HSET', key, fields[i], fields[i + 1])
    end
  end
  redis.call('HINCRBY', key, 'v', 1)
  redis.call('PEXPIRE', key, IDLE_MS)
end
