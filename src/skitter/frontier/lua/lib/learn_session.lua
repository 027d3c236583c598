--[[
learn_session: store what an attempt learned about its session: cookies set or expired, whether it
was refused, whether it was logged out. A session retired meanwhile learns nothing more.
]]
--@include session
local function learn_session(said)
  local found = read_pool(said.name)
  local one = find_live(found, said.number or 0)
  local is_new = not one and (said.number or 0) == 0 and said.fields
  if is_new then one = begin_session(found) end
  if not one then return end
  if is_new or said.errors then
    one[4] = math.max(0, one[4] + (said.errors or 0))
    write_pool(said.name, found)
  end
  local key = key_of(said.name, one)
  if said.fields or said.gone then write_session(key, said.fields or {}, said.gone or {}) end
  -- Only if the login is still the one the attempt used: another worker may have logged in since.
  if said.logged_out and redis.call('HGET', key, 'login') == tostring(said.logged_out) then
    redis.call('HDEL', key, 'login')
    redis.call('HINCRBY', key, 'v', 1)
  end
end
