--[[
host: override the job's values for some hosts, or let them rest, then move them to the right list.
Without a field it only moves them, as needed after the job's limits change.

FLAGS  allow-oom
ARGV   field    text   delay_ms, max_in_flight, max_pages, crawl_delay_ms, raised_ms, blocked_for_ms,
                       or empty
       value    any    a number; empty: back to the job's value
EACH   name     text   host
REPLY  int    how many hosts were given
COST   O(hosts * log N)
]]
--@include enqueue
local function with_own(known)
  local own = {}
  for name, number in pairs(known.own) do own[name] = number end
  own[field] = tonumber(value)
  return own
end

for at = EACH.start, #ARGV do
  local known = host(ARGV[at])
  if field == 'blocked_for_ms' then
    known.blocked_until = tonumber(value) and now_ms + tonumber(value) or 0
  elseif field ~= '' then
    known.own = with_own(known)
  end
end
commit()
return #ARGV - EACH.start + 1
