--[[
feed: take messages that users pushed to keys of their own, and keep a copy until they are in the
frontier. A batch that a node did not finish in time goes to the next caller, under its old name.

FLAGS  allow-oom
KEYS   feeding  hash   batch -> ms at which it may be taken over, and its messages
ARGV   limit    int    at most this many messages
       ttl_ms   int    how long the node has to finish the batch
       token    text   names the batch
EACH   key      text   a list, set or zset; the first that has messages is read
REPLY  list   the name of the batch and its messages; empty if there are none; an empty name, a
       key and its type if that key is not a list, set or zset
COST   O(limit * log N), plus the batches that nodes hold now
]]
--@include once clock
local function keep(batch, messages)
  redis.call('HSET', feeding, batch, cmsgpack.pack({ now_ms + ttl_ms, messages }))
  table.insert(messages, 1, batch)
  return remember(messages)
end

local function abandoned()
  local batches = redis.call('HGETALL', feeding)
  for i = 1, #batches, 2 do
    local known = cmsgpack.unpack(batches[i + 1])
    if known[1] <= now_ms then return batches[i], known[2] end
  end
end

local READ = {
  list = function(key) return redis.call('LPOP', key, limit) end,
  set = function(key) return redis.call('SPOP', key, limit) end,
  zset = function(key) -- highest score first, like scrapy-redis
    local pairs, messages = redis.call('ZPOPMAX', key, limit), {}
    for i = 1, #pairs, 2 do messages[#messages + 1] = pairs[i] end
    return messages
  end,
}

local batch, messages = abandoned()
if batch then return keep(batch, messages) end
local wrong = {}
for at = EACH.start, #ARGV do
  local kind = redis.call('TYPE', ARGV[at]).ok
  if READ[kind] then return keep(token, READ[kind](ARGV[at])) end
  if kind ~= 'none' then wrong = { '', ARGV[at], kind } end
end
return remember(wrong)
