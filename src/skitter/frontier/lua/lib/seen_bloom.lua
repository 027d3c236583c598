--[[
seen_bloom: whether a fingerprint is known, by a Bloom filter. It needs less memory, but takes about
one new URL in 1/error_rate for a known one. The leading digits pick the block, all digits the bits.

KEYS   bloom    string one per block of 2^19 bits
]]
--@include limits
--@if limits.bloom_blocks
local BLOCKS, HASHES = tonumber(limits.bloom_blocks), tonumber(limits.bloom_hashes)
local BLOCK_BITS = 2 ^ 19

-- The block of a fingerprint, and the BITFIELD arguments for its bits.
local function program_of(fp, operation, ...)
  local low, high = tonumber(string.sub(fp, -9)), tonumber(string.sub(fp, 1, -10)) or 0
  local step = 2 * math.floor(high / BLOCKS) + 1
  local program = {}
  for i = 0, HASHES - 1 do
    for _, word in ipairs({ operation, 'u1', (low + i * step) % BLOCK_BITS, ... }) do
      program[#program + 1] = word
    end
  end
  return bloom .. high % BLOCKS, program
end

local function all_set(bits)
  for _, bit in ipairs(bits) do
    if bit == 0 then return false end
  end
  return true
end

local function admit_bloom(fp)
  local block, program = program_of(fp, 'SET', 1)
  return not all_set(redis.call('BITFIELD', block, unpack(program))) -- SET returns the old bits
end

local function in_bloom(fp)
  local block, program = program_of(fp, 'GET')
  return all_set(redis.call('BITFIELD_RO', block, unpack(program)))
end
