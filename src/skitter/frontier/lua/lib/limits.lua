--[[
limits: the desired state and the limits of the job, as a table. A job without a state does not
exist: it was purged, or never made, and a worker that comes late must not bring keys of it back.
What may wait is shared out evenly among the shards; how max_pages is, budget.lua tells.

KEYS   control  hash   state and limits; an absent limit is none
]]
local function read_limits()
  local values = redis.call('HMGET', control, 'state', 'bloom_blocks', 'bloom_hashes', 'lifo',
    'shards', 'born', 'clock', 'shift', 'depths', 'spare', unpack(LIMITS))
  if not values[1] or values[1] == 'purge' then error({ err = 'GONE ' .. control }) end
  local limits = { state = values[1], blocks = tonumber(values[2]), hashes = tonumber(values[3]) }
  limits.lifo, limits.shared, limits.born = values[4] == '1', values[5] and true, values[6]
  limits.clock, limits.shift = tonumber(values[7]), tonumber(values[8]) or 0 -- steady.lua
  limits.spare = tonumber(values[10]) or 0
  for i, name in ipairs(LIMITS) do limits[name] = tonumber(values[i + 10]) or math.huge end
  -- Depths are kept if it has, or once had, a max_depth; also one that an older release set.
  limits.depths = values[9] ~= false or limits.max_depth < math.huge
  for _, name in ipairs({ 'max_pending', 'max_items' }) do
    limits[name] = math.ceil(limits[name] / (tonumber(values[5]) or 1))
  end
  for _, name in ipairs({ 'delay_ms', 'latency_factor' }) do
    if limits[name] == math.huge then limits[name] = 0 end
  end
  limits.running = limits.state == 'run' or limits.state == 'drain'
  limits.open = limits.state == 'run' or limits.state == 'pause'
  return limits
end

local limits = read_limits()
