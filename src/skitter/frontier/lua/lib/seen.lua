--[[
seen: have we met this fingerprint? The one door to both ways to remember them, of which a job has
one: an exact set or a Bloom filter. `admit` adds one and tells whether it is new.
]]
--@include limits seen_exact seen_bloom
local admit = limits.bloom_blocks and admit_bloom or admit_exact
local has_seen = limits.bloom_blocks and in_bloom or in_exact

-- A Bloom filter cannot forget.
local function forget_seen(fp) return not limits.bloom_blocks and forget_exact(fp) end

-- A Bloom filter has its size from the beginning.
local function grow_seen()
  if not limits.bloom_blocks then grow_exact() end
end

-- How many there are. Those in a Bloom filter cannot be counted: the counter stands for them.
local function count_seen() return limits.bloom_blocks and read_counter('seen') or count_exact() end
