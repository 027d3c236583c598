--[[
rows: a table of figures: member -> `ok failed bytes ms`. It keeps the members with the most
requests apart, and the others together under an empty name.
]]
--@include slots
local FIGURES = '^(%d+) (%d+) (%d+) (%d+)$'

local function read_row(packed)
  local ok, failed, bytes, ms = string.match(packed or '', FIGURES)
  return { tonumber(ok) or 0, tonumber(failed) or 0, tonumber(bytes) or 0, tonumber(ms) or 0 }
end

local function add_row(key, member, more)
  local row = read_row(redis.call('HGET', key, member))
  for i = 1, 4 do row[i] = as_int(row[i] + more[i]) end
  redis.call('HSET', key, member, table.concat(row, ' '))
end

-- Seldom: a table may grow to twice its size before.
local function fold(key, most)
  local flat, found = redis.call('HGETALL', key), {}
  for i = 1, #flat, 2 do
    if flat[i] ~= '' then found[#found + 1] = { flat[i], read_row(flat[i + 1]) } end
  end
  table.sort(found, function(a, b)
    local first, second = a[2][1] + a[2][2], b[2][1] + b[2][2]
    return first > second or (first == second and a[1] < b[1])
  end)
  for i = most + 1, #found do
    redis.call('HDEL', key, found[i][1])
    add_row(key, '', found[i][2])
  end
end

local function add_rows(key, flat, most)
  for i = 1, #flat, 5 do
    add_row(key, flat[i], { flat[i + 1], flat[i + 2], flat[i + 3], flat[i + 4] })
  end
  if redis.call('HLEN', key) > 2 * most then fold(key, most) end
end
