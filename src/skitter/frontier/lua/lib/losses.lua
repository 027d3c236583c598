--[[
losses: make requests whose lease is lost pending again; bury one that was lost too often. A handler
that kills its process must not take down the whole fleet, one worker at a time.

A page is buried only by evidence: it was lost `max_losses` times and, but for one, alone in its
process. Those in company are lost with whatever killed it; they become suspects, and the next one to
have them runs them alone (docs/adr/0058).

An expired lease from before the server started does not count against its request: what stopped the
server, perhaps a power cut, stopped the worker too (docs/adr/0014).

KEYS   lease    zset   fingerprint -> ms
       holder   hash   fingerprint -> token, which ends with the second in which it was taken,
                       and the mark of company.lua
       task     hash   fingerprint -> record
]]
--@include bulk enqueue delay record trouble trips shapes company expect
local function was_in_company(token) return string.sub(token, -1) == IN_COMPANY end

-- Count a loss of an entry of trouble.lua. Returns whether the request is to be buried.
local function blame(entry, alone)
  entry.losses = entry.losses + 1
  if alone then entry.alone = (entry.alone or 0) + 1 end
  local enough = math.max(1, limits.max_losses - 1)
  return entry.losses >= limits.max_losses and (entry.alone or 0) >= enough
end

local function lose(fp, loss)
  local priority, name = unpack_record(redis.call('HGET', task, fp) or '')
  if not name then return count('damaged', 1) end -- the audit reports it; the others go on
  end_probation({ fp }, { name })
  local known = host(name)
  if known.in_flight > 0 then known.in_flight = known.in_flight - 1 end -- 0: a rebuilt record
  local clock = host(clock_name(name))
  if delay_of(clock) > 0 then
    local turn = string.format('%d 0 -1 %d ', clock.asked_at, delay_of(clock))
    keep_trips({ clock_name(name) .. ' ' .. turn })
  end
  -- The request may have left at any time, even now: start the delay now. A reserved moment stays.
  clock.asked_at = math.max(clock.asked_at, now_ms)
  count('lost', 1)
  if loss.forgiven then return enqueue(fp, name, priority) end
  local entry, known_why = trouble_of(fp), loss.why ~= '' and ': ' .. loss.why or ''
  if blame(entry, loss.alone) then
    bury(fp, entry, 'its worker vanished ' .. entry.losses .. ' times' .. known_why)
  else
    note_trouble(fp, entry, 'its worker vanished' .. known_why)
    enqueue(fp, name, priority)
  end
end

-- The second in which the server started, or slightly before; 0: unknown.
local function started_s()
  local info = not tonumber(now) and redis.pcall('INFO', 'server')
  local up_s = type(info) == 'string' and tonumber(string.match(info, 'uptime_in_seconds:(%d+)'))
  return up_s and math.floor(wall_ms / 1000) - up_s - 1 or 0
end

-- `how`: seen (somebody saw their process die), alone (it had only this one) and why.
local function lose_all(fps, how)
  local start_s = how.seen and 0 or started_s()
  for i, token in ipairs(bulk_read('HMGET', holder, fps)) do
    local taken_s = tonumber(string.match(unmarked(token or ''), '%.(%d+)$'))
    lose(fps[i], {
      forgiven = taken_s and taken_s < start_s,
      alone = how.alone or not was_in_company(token or ''),
      why = how.why or '',
    })
  end
  bulk('ZREM', lease, fps)
  bulk('HDEL', holder, fps)
end

local function expect_losses()
  expect('zset', lease, dead, due, due_browser, due_file, wait)
  expect('hash', trouble, probation)
  read_counter('lost')
end
