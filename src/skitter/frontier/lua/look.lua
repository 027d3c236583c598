--[[
look: when nothing else is left, it is the turn of what is held. Each shape may have twice as many
pages as so far, up to LAST times its budget. One that has had that many is a trap.

FLAGS  allow-oom
REPLY  int    how many became pending
COST   O(shapes held * log N), and O(log N) for each URL freed: at most 500 per shape
]]
--@include finished shapes free enqueue
local AT_ONCE = 100 -- shapes per call

local function look_at(member)
  local number, name = string.match(member, '^(%d+) (.*)$')
  if not number or redis.call('ZCOUNT', trapped, number, number) == 0 then
    redis.call('ZREM', looks, member)
    return 0
  end
  local entry = shape(name, tonumber(number))
  entry[5] = math.min(last_of(entry), 2 * allowed(entry))
  if room_of(entry) > 0 then return free_shape(number, room_of(entry)) end
  redis.call('ZADD', looks, TRAP, member)
  return 0
end

local freed = 0
if limits.running and is_drained() then
  local due = redis.call('ZRANGE', looks, 0, '+inf', 'BYSCORE', 'LIMIT', 0, AT_ONCE)
  for _, member in ipairs(due) do freed = freed + look_at(member) end
  write_shapes()
end
commit()
return freed
