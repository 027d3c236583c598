--[[
end_each: end all leases in ARGV, call the verb's `finish` for each, and return a code for each.
]]
--@include once claims enqueue settle
local function end_each(finish)
  expect('zset', due, due_browser, due_file, wait)
  local claims, codes = read_claims(), {}
  end_leases(claims)
  for i, claim in ipairs(claims) do codes[i] = claim.record and finish(claim) or LOST end
  commit()
  return remember(codes)
end
