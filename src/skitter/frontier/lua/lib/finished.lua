--[[
finished: whether nothing of the shard is left to be done.

KEYS   delayed  zset
       lease    zset
]]
--@include limits counters depth revisit
local function is_finished()
  local left = read_counter('pending') - read_counter('shelved') + redis.call('ZCARD', delayed)
    + count_to_reopen() + count_due()
  local spent = read_counter('done') >= limits.max_pages
  return redis.call('ZCARD', lease) == 0 and (left == 0 or spent or limits.state == 'cancel')
end
