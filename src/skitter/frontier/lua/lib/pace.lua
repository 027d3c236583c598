--[[
pace: how the hosts of what is handed out want to be asked: empty if nobody wants a delay, else
per request `moment_ms delay_ms slack_ms`: when its turn was, and how long after that it may leave
without asking, as there may be others (0: there are none). In the answer to a repeated call the
turn may be another's where there may be others: then it has none (0).
]]
--@include host limits record delay lane
local function wants_delay()
  if limits.delay_ms > 0 then return true end
  for _, known in pairs(loaded) do
    if known.own ~= NONE and delay_of(known) > 0 then return true end
  end
  return false
end

local function pace(records, is_repeated)
  if next(loaded) and not wants_delay() then return '' end -- the hosts of a repeated call are not
  local names, words = {}, {}
  for i, record in ipairs(records) do names[i] = clock_name(record and host_of(record) or '') end
  load_hosts(names)
  if not wants_delay() then return '' end
  for i, name in ipairs(names) do
    local known = peek(name)
    local delay_ms = delay_of(known)
    local slack_ms = slack_of(known, delay_ms)
    local moment_ms = is_repeated and slack_ms > 0 and 0 or known.asked_at
    words[i] = string.format('%d %d %d', moment_ms, delay_ms, slack_ms)
  end
  return table.concat(words, ' ')
end
