--[[
depth: how many links a page is away from a seed, by the shortest way that was found so far. A job
keeps it from the moment it gets a limit of it: docs/adr/0011-depth-is-the-shortest-way.md.

A page is reopenable if it is done and not all of its links went in as they should: a shorter way
to it was found since, or they were beyond max_depth. Once max_depth is above its score, a client
offers its links again: reopen.lua.

KEYS   depths   hash   fingerprint -> links from a seed; absent: none
       outlinks hash   fingerprint of a page that is done -> where it leads, as clients pack it
       reopenable zset   fingerprint of such a page -> depth
]]
--@include limits counters
-- Whether it has, or once had, a max_depth; also one that an older release set.
local keeps_depths = limits.depths or limits.max_depth < math.huge

local function note_depth(fp, depth)
  if depth > 0 then redis.call('HSET', depths, fp, depth) end
end

-- A page that is known is found again, perhaps by a shorter way.
local function find_again(fp, depth)
  local known = redis.call('HGET', depths, fp)
  if not known or tonumber(known) <= depth then return end
  redis.call('HSET', depths, fp, depth)
  if redis.call('HEXISTS', outlinks, fp) == 1 then
    redis.call('ZADD', reopenable, depth, fp)
    count('ticket', 1) -- work came in, as totals.py wants to know
  end
end

-- A page is done whose links were offered as those of `depth`, the farthest `reach` beyond it.
local function keep_outlinks(fp, packed, depth, reach)
  local known = redis.call('HGET', depths, fp)
  local least = tonumber(known) or depth
  local is_cut = depth + reach > limits.max_depth
  if depth == 0 and not is_cut then return end -- there is no shorter way to a seed
  if not known then note_depth(fp, depth) end -- it is older than the limit
  redis.call('HSET', outlinks, fp, packed)
  if least < depth or is_cut then redis.call('ZADD', reopenable, least, fp) end
end

-- How many pages are to be opened again; none in a job that takes nothing new.
local function count_to_reopen()
  if not (keeps_depths and limits.open) then return 0 end
  return redis.call('ZCOUNT', reopenable, '-inf', '(' .. limits.max_depth)
end
