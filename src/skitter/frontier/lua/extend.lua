--[[
extend: renew leases that the caller still holds, for `ttl_ms` from now.

FLAGS  allow-oom
KEYS   lease    zset   fingerprint -> ms
ARGV   ttl_ms   int
EACH   fp       text
       token    text
REPLY  ints   a code per lease: EXTENDED or LOST
COST   O(leases * log N)
]]
--@include once clock claims
local claims = read_claims()
local codes, expiries = {}, {}
for i, claim in ipairs(claims) do
  codes[i] = claim.record and EXTENDED or LOST
  if claim.record then
    expiries[#expiries + 1] = now_ms + ttl_ms
    expiries[#expiries + 1] = claim.fp
  end
end
bulk('ZADD', lease, expiries)
write_counters()
return remember(codes)
