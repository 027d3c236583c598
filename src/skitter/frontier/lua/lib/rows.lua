--[[
rows: a table of figures: member -> `ok failed bytes ms`, then counts by duration, in buckets that
double. Members with the most requests have their own row; the rest share one with an empty name.
]]
--@include slots
local LONGEST = 500

local function read_row(packed)
  local row = { 0, 0, 0, 0 }
  if not packed or #packed > LONGEST or string.find(packed, '[^%d ]') then return row end
  local at = 0
  for figure in string.gmatch(packed, '%d+') do
    at = at + 1
    row[at] = tonumber(figure)
  end
  return row
end

local function add_row(key, member, more)
  local row = read_row(redis.call('HGET', key, member))
  for i = 1, math.max(#row, #more) do row[i] = as_int((row[i] or 0) + (more[i] or 0)) end
  redis.call('HSET', key, member, table.concat(row, ' '))
end

-- Costs O(table), but runs rarely: only when a table has grown to twice its size.
local function fold(key, limit)
  local flat, found = redis.call('HGETALL', key), {}
  for i = 1, #flat, 2 do
    if flat[i] ~= '' then found[#found + 1] = { flat[i], read_row(flat[i + 1]) } end
  end
  table.sort(found, function(a, b)
    local first, second = a[2][1] + a[2][2], b[2][1] + b[2][2]
    return first > second or (first == second and a[1] < b[1])
  end)
  for i = limit + 1, #found do
    redis.call('HDEL', key, found[i][1])
    add_row(key, '', found[i][2])
  end
end

local function add_rows(key, flat, limit)
  for i = 1, #flat, 2 do add_row(key, flat[i], flat[i + 1]) end
  if redis.call('HLEN', key) > 2 * limit then fold(key, limit) end
end
