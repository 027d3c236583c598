--[[
finished: whether the shard has no work left. URLs held in traps count as work until their last
look; a drained shard has nothing but those.

KEYS   delayed  zset
       lease    zset
]]
--@include limits counters depth revisit shapes
local function count_left()
  return read_counter('pending') - read_counter('shelved') + redis.call('ZCARD', delayed)
    + count_to_reopen() + count_due()
end

local function is_drained()
  return redis.call('ZCARD', lease) == 0 and count_left() == 0
end

local function is_finished()
  local left = count_left() + count_looks()
  local spent = read_counter('done') >= limits.max_pages
  return redis.call('ZCARD', lease) == 0 and (left == 0 or spent or limits.state == 'cancel')
end
