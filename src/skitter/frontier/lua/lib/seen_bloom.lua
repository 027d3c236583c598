--[[
seen_bloom: have we met this fingerprint? A Bloom filter: less memory, and about one new URL in
1/error_rate is taken for an old one. The block comes from the leading digits, the bits from all.

KEYS   bloom    string one per block of 2^19 bits
]]
--@include limits
local BLOCK_BITS = 2 ^ 19

local function admit_bloom(fp)
  local low, high = tonumber(string.sub(fp, -9)), tonumber(string.sub(fp, 1, -10)) or 0
  local step = 2 * math.floor(high / limits.blocks) + 1
  local bits = {}
  for i = 0, limits.hashes - 1 do
    for _, part in ipairs({ 'SET', 'u1', (low + i * step) % BLOCK_BITS, 1 }) do bits[#bits + 1] = part end
  end
  for _, was_set in ipairs(redis.call('BITFIELD', bloom .. high % limits.blocks, unpack(bits))) do
    if was_set == 0 then return true end
  end
  return false
end
