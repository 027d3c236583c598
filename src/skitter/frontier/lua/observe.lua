--[[
observe: add what handlers found to their latest window; a full window is followed by a new one.

A window is full when it has WIDTH pages and is SPAN_MS old. Beyond WINDOWS windows, the last FINE
stay as they are; of the older ones, the two neighbours with the fewest pages are merged.

KEYS   quality  hash   handler -> msgpack: columns; rows of ms, pages, items, blocked, a count per
                       column
ARGV   handlers int    keep at most this many handlers
       columns  int    and this many columns of each
EACH   handler  text
       numbers  bytes  msgpack: pages, items, blocked
       names    bytes  msgpack: columns
       counts   bytes  msgpack: a count for each column
REPLY  int    how many handlers were given
COST   O(handlers * windows * columns)
]]
--@include once clock
local WIDTH, SPAN_MS, WINDOWS, FINE = 50, 5000, 40, 12

local function read(handler)
  local packed = redis.call('HGET', quality, handler)
  if not packed then return redis.call('HLEN', quality) < handlers and { columns = {}, rows = {} } end
  local readable, known = pcall(cmsgpack.unpack, packed)
  if readable and type(known) == 'table' and type(known.rows) == 'table' then return known end
  return { columns = {}, rows = {} }
end

local function row_of(known, numbers, names, counts)
  local places, row = {}, { wall_ms, numbers[1], numbers[2], numbers[3] }
  for i, name in ipairs(known.columns) do places[name] = i end
  for i, name in ipairs(names) do
    if not places[name] and #known.columns < columns then
      known.columns[#known.columns + 1] = name
      places[name] = #known.columns
    end
    if places[name] then row[4 + places[name]] = counts[i] end
  end
  for i = 5, 4 + #known.columns do row[i] = row[i] or 0 end
  return row
end

local function add(row, more)
  for i = 2, math.max(#row, #more) do row[i] = (row[i] or 0) + (more[i] or 0) end
end

local function merge(rows)
  local best, fewest = 1, math.huge
  for i = 1, #rows - FINE - 1 do
    local pages = rows[i][2] + rows[i + 1][2]
    if pages < fewest then best, fewest = i, pages end
  end
  add(rows[best], table.remove(rows, best + 1))
end

for at = EACH.start, #ARGV, EACH.stride do
  local known = read(ARGV[at])
  if known then
    local rows, last = known.rows, known.rows[#known.rows]
    local row = row_of(known, cmsgpack.unpack(ARGV[at + 1]), cmsgpack.unpack(ARGV[at + 2]),
      cmsgpack.unpack(ARGV[at + 3]))
    if last and (last[2] + last[4] < WIDTH or wall_ms - last[1] < SPAN_MS) then
      add(last, row)
    else
      rows[#rows + 1] = row
    end
    if #rows > WINDOWS then merge(rows) end
    redis.call('HSET', quality, ARGV[at], cmsgpack.pack(known))
  end
end
return remember((#ARGV - EACH.start + 1) / EACH.stride)
