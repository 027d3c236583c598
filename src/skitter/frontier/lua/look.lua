--[[
look: when nothing else is left, free a sample of the held URLs, shape by shape. If afterwards the
number held has dropped by at least half of the pages fetched, the shape is finite and its budget is
doubled. If not, each page leads to about one more, or several: it is a trap. A shape whose pages
yielded nothing and were mostly found on each other is a trap at once.

FLAGS  allow-oom
REPLY  int    how many became pending
COST   O(shapes held * log N), and O(log N) for each URL freed: at most 500 per shape
]]
--@include finished looks free commit
local AT_ONCE, SAMPLE = 100, 5 -- shapes per call; a sample is a fifth of the budget

local function is_hopeless(entry) return entry[2] == 0 and (entry[4] or 0) > 0 end

local function lend(entry) entry[1] = entry[1] - math.max(1, math.floor(budget_of(entry) / SAMPLE)) end

local function look_at(member, before)
  local number, name = string.match(member, '^(%d+) (.*)$')
  local held = number and redis.call('ZCOUNT', trapped, number, number) or 0
  if held == 0 then
    redis.call('ZREM', looks, member)
    return 0
  end
  local entry = shape(name, tonumber(number))
  if is_hopeless(entry) or 2 * (before - held) < entry[1] - (entry[5] or 0) then
    redis.call('ZADD', looks, TRAP, member)
    return 0
  end
  if before < math.huge then double(entry, 0) else lend(entry) end
  entry[5] = entry[1]
  redis.call('ZADD', looks, held, member)
  return free_shape(number, budget_of(entry) - entry[1])
end

local freed = 0
if limits.running and is_drained() then
  local due = redis.call('ZRANGE', looks, 0, '+inf', 'BYSCORE', 'LIMIT', 0, AT_ONCE, 'WITHSCORES')
  for i = 1, #due, 2 do
    freed = freed + look_at(due[i], due[i + 1] == 'inf' and math.huge or tonumber(due[i + 1]))
  end
  write_shapes()
end
commit()
return freed
