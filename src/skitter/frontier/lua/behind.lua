--[[
behind: how far each output is behind, if any item waits at all.

FLAGS  no-writes
KEYS   items    stream what handlers yielded
REPLY  list   for each output: its group; 1: it has read something; how many items wait for it, at
       most; the id of the first of them, or empty
COST   O(outputs)
]]
--@include readers
local reply, waiting = {}, redis.call('XLEN', items)
for _, reader in ipairs(waiting > 0 and other_readers('') or {}) do
  local pending = redis.call('XPENDING', items, reader.name)
  local ahead = redis.call('XRANGE', items, '(' .. reader.last, '+', 'COUNT', 1)
  local first = pending[1] > 0 and pending[2] or (ahead[1] and ahead[1][1]) or ''
  -- The server does not count exactly behind items that were removed out of turn.
  local behind = first == '' and 0 or (reader.lag and pending[1] + reader.lag or waiting)
  for _, value in ipairs({ reader.name, reader.last == '0-0' and 0 or 1, behind, first }) do
    reply[#reply + 1] = value
  end
end
return reply
