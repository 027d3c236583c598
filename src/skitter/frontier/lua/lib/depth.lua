--[[
depth: how many links a page is from a seed, by the shortest path found so far. A job keeps depths
once it has had a max_depth: docs/adr/0011-depth-is-the-shortest-path.md.

A done page is reopenable if its links were offered too deep, as a shorter path to it was found
since, or if max_depth cut some off. Once max_depth exceeds its score, a client offers its links
again: reopen.lua.

KEYS   depths   hash   fingerprint -> links from a seed; absent: none
       outlinks hash   fingerprint of a done page -> its links, as clients pack them
       reopenable zset   fingerprint of such a page -> depth
]]
--@include limits counters
-- Whether the job has or had a max_depth. Older releases set the limit without `depths`.
local keeps_depths = limits.depths or limits.max_depth < math.huge

local function note_depth(fp, depth)
  if depth > 0 then redis.call('HSET', depths, fp, depth) end
end

-- A known page was found again, perhaps by a shorter path.
local function find_again(fp, depth)
  local known = redis.call('HGET', depths, fp)
  if not known or tonumber(known) <= depth then return end
  redis.call('HSET', depths, fp, depth)
  if redis.call('HEXISTS', outlinks, fp) == 1 then
    redis.call('ZADD', reopenable, depth, fp)
    count('ticket', 1) -- totals.py takes it as a sign of new work
  end
end

-- A page is done. Its links were offered as if it had `depth`; the deepest is `reach` further down.
local function keep_outlinks(fp, packed, depth, reach)
  local known = redis.call('HGET', depths, fp)
  local least = tonumber(known) or depth
  local is_cut = depth + reach > limits.max_depth
  if depth == 0 and not is_cut then return end -- there is no shorter path to a seed
  if not known then note_depth(fp, depth) end -- it was added before there was a limit
  redis.call('HSET', outlinks, fp, packed)
  if least < depth or is_cut then redis.call('ZADD', reopenable, least, fp) end
end

-- How many pages to reopen; none if the job takes no new requests.
local function count_to_reopen()
  if not (keeps_depths and limits.open) then return 0 end
  return redis.call('ZCOUNT', reopenable, '-inf', '(' .. limits.max_depth)
end
