--[[
pace: when the leased requests may leave: empty if no host wants a delay, otherwise per request
`moment_ms delay_ms slack_ms`: its turn, the host's delay, and how late it may leave without asking
(0: it is alone at its host). In a repeated call, a host that allows several in flight may have
given its turn to another request since: moment_ms is then 0.
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
  if next(loaded) and not wants_delay() then return '' end -- a repeated call has loaded none yet
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
