--[[
complete: finish leases and store what they found, in one atomic step.

FLAGS  allow-oom
KEYS   items    stream what handlers yielded
       trouble  hash   fingerprint -> msgpack
ARGV   leases   int    how many groups of EACH follow
       links    int    how many links are in REST
       list     text   key of a list to push items to; empty: use the stream
       report   int    1: report which links were known
EACH   fp       text
       token    text
       brings   text   `links items`: how many links and items of REST are its own; empty: none.
                       If ` depth reach` follows, its packed outlinks precede its items:
                       depth.lua
       feedback bytes  feedback.lua
REST   links (fp, host, priority, depth, record), then items (bytes)
REPLY  ints   a code per lease: DONE, or LOST (nothing was stored); then the positions of the
       links that were known
COST   O(leases + links + items), each log N
]]
--@include once brings claims enqueue settle daily
--@late accept feedback live depth
local LINK = 5

-- A page in flight when the job was cancelled is not fetched again after a resume: refusing its
-- links now would lose them.
if limits.state == 'cancel' then limits.open = true end

local first_link = EACH.start + leases * EACH.stride
expect('zset', due, due_browser, due_file, wait)
expect('hash', trouble, pages)
if #ARGV >= first_link + LINK * links then -- there are items
  if list ~= '' then expect('list', list) else expect('stream', items) end
end
local shows = #ARGV >= first_link + LINK * links and is_watched()
local claims = read_claims(leases)
end_leases(claims)

local codes, finished, troubled, known, done, taught = {}, {}, {}, {}, 0, false
local link_at = first_link
local item_at = link_at + LINK * links
for i = 1, #claims do
  local claim = claims[i]
  local more_links, more_items, depth, reach = brought_by(claim)
  local packed_at, first_item = item_at, item_at + (depth and 1 or 0)
  local next_link, next_item = link_at + LINK * more_links, first_item + more_items
  codes[i] = claim.record and DONE or LOST
  if claim.record then
    done = done + 1
    local at_host = loaded[claim.host] -- end_leases has touched it
    at_host.pages = at_host.pages + 1
    local feedback = ARGV[claim.at + 3]
    if feedback ~= '' then learn(claim, feedback) taught = true end
    if not claim.stays then finished[#finished + 1] = claim.fp end -- stays: revisit.lua
    troubled[done] = claim.fp
    for at = link_at, next_link - 1, LINK do
      if accept(at, true) == SEEN and report == 1 then known[#known + 1] = (at - first_link) / LINK end
    end
    if depth then keep_outlinks(claim.fp, ARGV[packed_at], depth, reach) end
    for at = first_item, next_item - 1 do
      if list ~= '' then
        redis.call('RPUSH', list, ARGV[at])
      else
        redis.call('XADD', items, '*', 'fp', claim.fp, 'n', at - first_item, 'item', ARGV[at])
        if shows then show(claim.fp, at - first_item, ARGV[at]) end
      end
    end
  end
  link_at, item_at = next_link, next_item
end

bulk('HDEL', task, finished) -- their fingerprints stay in `seen`
if redis.call('EXISTS', trouble) == 1 then bulk('HDEL', trouble, troubled) end
count('done', done)
count_of_day(done)
if links > 0 then write_accepted() end
if taught then write_pages() end
commit()
for i, position in ipairs(known) do codes[leases + i] = position end
return remember(codes)
