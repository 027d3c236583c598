--[[
bulk: many values in one command, and lists of the newest.

bulk: run one command with many values, in slices that fit Lua's stack.

newest: keep the latest entries, in two hashes. When `new` holds half of `keep`, it replaces `old`:
that needs neither an order nor a scan.
]]
local SLICE = 4000

local function bulk(command, key, values)
  for first = 1, #values, SLICE do
    redis.call(command, key, unpack(values, first, math.min(first + SLICE - 1, #values)))
  end
end

-- The same for reads; returns all answers as one list.
local function bulk_read(command, key, fields)
  if #fields == 0 then return {} end
  if #fields <= SLICE then return redis.call(command, key, unpack(fields)) end
  local answers = {}
  for first = 1, #fields, SLICE do
    local part = redis.call(command, key, unpack(fields, first, math.min(first + SLICE - 1, #fields)))
    for _, answer in ipairs(part) do answers[#answers + 1] = answer end
  end
  return answers
end

local function keep_newest(family, pairs, keep)
  if #pairs == 0 then return end
  local new, old = family .. 'new', family .. 'old'
  bulk('HSET', new, pairs)
  if redis.call('HLEN', new) * 2 < keep then return end
  redis.call('UNLINK', old)
  redis.call('RENAME', new, old)
end
