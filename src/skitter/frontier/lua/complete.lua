--[[
complete: finish leases for good, with everything that was found, in one step.

FLAGS  allow-oom
KEYS   items    stream what handlers yielded
       trouble  hash   fingerprint -> msgpack
ARGV   leases   int    how many groups of EACH follow; then come all links (fp, host, priority,
                       depth, body), then all items (bytes)
EACH   fp       text
       token    text
       block_ms int    give the host a rest; 0: no
       links    int    how many of the links are this one's
       items    int    how many of the items are this one's
REPLY  a code per lease: DONE, or LOST without any effect
COST   O(leases + links + items), each log N
]]
--@include once accept claims block commit
local LINK = 5
local answer = answered()
if answer then return answer end

-- A page that was under way when the job was cancelled is done for good: were its links refused,
-- nobody would find them again after a resume.
if limits.state == 'cancel' then limits.open = true end

local claims = read_claims(leases)
end_leases(claims)

local codes, finished = {}, {}
local link_at = EACH.start + leases * EACH.stride
local links_end = link_at
for _, claim in ipairs(claims) do links_end = links_end + LINK * tonumber(ARGV[claim.at + 3]) end
local item_at = links_end

for i, claim in ipairs(claims) do
  local next_link = link_at + LINK * tonumber(ARGV[claim.at + 3])
  local next_item = item_at + tonumber(ARGV[claim.at + 4])
  codes[i] = claim.record and DONE or LOST
  if claim.record then
    finished[#finished + 1] = claim.fp
    local known = host(claim.host)
    known.pages = known.pages + 1
    block(claim.host, tonumber(ARGV[claim.at + 2]))
    for at = link_at, next_link - 1, LINK do
      accept(ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]), ARGV[at + 4])
    end
    for at = item_at, next_item - 1 do
      redis.call('XADD', items, '*', 'fp', claim.fp, 'n', at - item_at, 'item', ARGV[at])
    end
  end
  link_at, item_at = next_link, next_item
end

bulk('HDEL', task, finished)
bulk('HDEL', trouble, finished)
count('done', #finished)
write_accepted()
commit()
return remember(codes)
