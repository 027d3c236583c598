--[[
seen_exact: whether a fingerprint is known, exactly, at about 9 bytes each.

The server stores a small set of integers as a sorted array of 8 bytes per member (intset, up to 512
members). Linear hashing keeps the sets small: with n buckets, 2^k <= n < 2^(k+1), a member lives in
bucket `tail mod 2^(k+1)`, or `tail mod 2^k` if that bucket does not exist yet. When the mean size
exceeds TARGET, the next bucket in turn is split in two: no pause, no full rehash, no directory.

KEYS   seen     set    one per bucket
]]
--@include bulk counters limits
--@if not limits.bloom_blocks
-- An unsplit bucket may hold twice the mean: 400 of 512, a margin of five standard deviations.
local TARGET = 200
local buckets = math.max(1, read_counter('buckets'))
local _, exponent = math.frexp(buckets)
local span = 2 ^ (exponent - 1) -- the largest power of two <= buckets

local sub, format = string.sub, string.format

local function bucket_of(fp)
  local bucket = sub(fp, -9) % (2 * span)
  return bucket < buckets and bucket or bucket - span
end

-- `..` would format the number as a float, at twice the cost.
local function key_of(fp)
  return format('%s%d', seen, bucket_of(fp))
end

local function admit_exact(fp)
  return redis.call('SADD', key_of(fp), fp) == 1
end

local function in_exact(fp)
  return redis.call('SISMEMBER', key_of(fp), fp) == 1
end

local function forget_exact(fp)
  return redis.call('SREM', key_of(fp), fp) == 1
end

local function split_bucket()
  local old, new = buckets - span, buckets
  local members = redis.call('SMEMBERS', seen .. old)
  buckets = buckets + 1
  if buckets == 2 * span then span = buckets end
  local parts = { [old] = {}, [new] = {} }
  for _, fp in ipairs(members) do
    local part = parts[bucket_of(fp)]
    part[#part + 1] = fp
  end
  -- Rewritten, as SREM is not enough: a set that outgrew the intset encoding never returns to it.
  redis.call('DEL', seen .. old)
  for bucket, part in pairs(parts) do bulk('SADD', seen .. bucket, part) end
end

local function grow_exact()
  local wanted = math.ceil(read_counter('seen') / TARGET)
  local before = buckets
  while buckets < wanted do split_bucket() end
  if buckets > before then redis.call('HSET', stats, 'buckets', buckets) end
end

local function count_exact()
  local sum = 0
  for bucket = 0, buckets - 1 do sum = sum + redis.call('SCARD', seen .. bucket) end
  return sum
end
