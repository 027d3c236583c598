--[[
extend: renew leases that the caller still holds, for `ttl_ms` from now.

FLAGS  allow-oom
KEYS   lease    zset   fingerprint -> ms
       holder   hash   fingerprint -> token
ARGV   ttl_ms   int
       alone    int    1: the caller does nothing else from now on (reap.lua); the mark of its token
                       is dropped
EACH   fp       text
       token    text
REPLY  ints   a code per lease: EXTENDED or LOST
COST   O(leases * log N)
]]
--@include once clock claims company
local claims = read_claims()
local codes, expiries, tokens = {}, {}, {}
for i, claim in ipairs(claims) do
  codes[i] = claim.record and EXTENDED or LOST
  if claim.record then
    expiries[#expiries + 1] = now_ms + ttl_ms
    expiries[#expiries + 1] = claim.fp
    if alone == 1 then
      tokens[#tokens + 1] = claim.fp
      tokens[#tokens + 1] = unmarked(ARGV[claim.at + 1])
    end
  end
end
bulk('ZADD', lease, expiries)
bulk('HSET', holder, tokens)
write_counters()
return remember(codes)
