--[[
seen: whether a fingerprint is known. A job uses either an exact set or a Bloom filter; this is the
interface to both. `admit` adds a fingerprint and returns whether it is new.
]]
--@include limits seen_exact seen_bloom
local admit = limits.bloom_blocks and admit_bloom or admit_exact
local has_seen = limits.bloom_blocks and in_bloom or in_exact

-- A Bloom filter cannot forget.
local function forget_seen(fp) return not limits.bloom_blocks and forget_exact(fp) end

-- A Bloom filter has a fixed size.
local function grow_seen()
  if not limits.bloom_blocks then grow_exact() end
end

-- The members of a Bloom filter cannot be counted: the counter stands in for them.
local function count_seen() return limits.bloom_blocks and read_counter('seen') or count_exact() end
