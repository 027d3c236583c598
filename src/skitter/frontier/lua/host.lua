--[[
host: give hosts values of their own, or a rest, and put them where they then belong. With no
field it only settles the hosts, as after a change of the job's limits.

FLAGS  allow-oom
ARGV   field    text   delay_ms, max_in_flight, max_pages, crawl_delay_ms, raised_ms, blocked_for_ms,
                       or empty
       value    any    a number; empty: the job's value again
EACH   name     text   host
REPLY  int    how many hosts were settled
COST   O(hosts * log N)
]]
--@include commit
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
