--[[
feed: take messages that users pushed to keys of their own, and keep a copy until they are in the
frontier. A batch that a node did not finish in time goes to the next caller, under its old name.
Names no other key of a job: in a cluster, the copy is where the messages were (batches.py).

FLAGS  allow-oom
KEYS   feeding  hash   batch -> ms at which it may be taken over, its messages, their scores and how
                       many keys have precedence over theirs
ARGV   now      text   server ms; empty outside of tests and simulation
       limit    int    at most this many messages
       ttl_ms   int    how long the node has to finish the batch
       token    text   names the batch
EACH   key      text   a list, set, zset or stream; the first that has messages is read
REPLY  list   the name of the batch, its scores (empty unless it is of a zset), how many keys have
       precedence over its own, and its messages; empty if there are none; an empty name, a key and
       its type if that key is not a list, set, zset or stream
COST   O(limit * log N), plus the batches that nodes hold now
]]
local time = redis.call('TIME')
local now_ms = tonumber(now) or time[1] * 1000 + math.floor(time[2] / 1000)

local function answer(batch, known)
  return { batch, known[3] or '', known[4] or 0, unpack(known[2]) }
end

local function keep(batch, messages, scores, behind)
  local known = { now_ms + ttl_ms, messages, scores, behind }
  redis.call('HSET', feeding, batch, cmsgpack.pack(known))
  return answer(batch, known)
end

-- What its only field holds, or its fields as JSON.
local function message_in(fields)
  if #fields == 2 then return fields[2] end
  local named = {}
  for i = 1, #fields, 2 do named[fields[i]] = fields[i + 1] end
  return cjson.encode(named)
end

local READ = {
  list = function(key) return redis.call('LPOP', key, limit), '' end,
  set = function(key) return redis.call('SPOP', key, limit), '' end,
  zset = function(key) -- highest score first, like scrapy-redis
    local pairs, messages, scores = redis.call('ZPOPMAX', key, limit), {}, {}
    for i = 1, #pairs, 2 do
      messages[#messages + 1], scores[#scores + 1] = pairs[i], pairs[i + 1]
    end
    return messages, table.concat(scores, ' ')
  end,
  stream = function(key)
    local entries, messages, ids = redis.call('XRANGE', key, '-', '+', 'COUNT', limit), {}, {}
    for i, entry in ipairs(entries) do ids[i], messages[i] = entry[1], message_in(entry[2]) end
    if #ids > 0 then redis.call('XDEL', key, unpack(ids)) end
    if redis.call('XLEN', key) == 0 then redis.call('DEL', key) end -- as of a list
    return messages, ''
  end,
}

local mine = redis.call('HGET', feeding, token) -- the reply was lost
if mine then return answer(token, cmsgpack.unpack(mine)) end
local batches = redis.call('HGETALL', feeding)
for i = 1, #batches, 2 do
  local known = cmsgpack.unpack(batches[i + 1])
  if known[1] <= now_ms then return keep(batches[i], unpack(known, 2)) end
end
local wrong = {}
for at = EACH.start, #ARGV do
  local kind = redis.call('TYPE', ARGV[at]).ok
  if READ[kind] then
    local messages, scores = READ[kind](ARGV[at])
    return keep(token, messages, scores, at - EACH.start)
  end
  if kind ~= 'none' then wrong = { '', ARGV[at], kind } end
end
return wrong
