--[[
audit: look each fingerprint up in every structure, atomically.

FLAGS  no-writes
KEYS   task     hash   fingerprint -> record
       queue    zset   one per host
       delayed  zset   fingerprint -> ms
       lease    zset   fingerprint -> ms
       holder   hash   fingerprint -> token
       dead     zset   fingerprint -> ms
       trouble  hash   fingerprint -> msgpack
       depths   hash   fingerprint -> links from a seed
       outlinks hash   fingerprint -> where the page leads
       reopenable zset   fingerprint -> depth
       trapped  zset   fingerprint -> shape
       probation hash  fingerprint -> shape
       revisits zset   fingerprint -> ms
EACH   fp       text
       found    text   the host whose queue holds it, or empty
REPLY  list   per fingerprint a list, with empty values where it is absent: record, score in its
       host's queue, score in the queue `found` if that is another, delayed ms, lease ms, token,
       dead ms, trouble, seen (1 or 0), depth, has outlinks (1 or 0), score in reopenable,
       shape in trapped, on probation (1 or 0), ms of its next visit
COST   O(fingerprints * log N)
]]
--@include seen record

local function facts_of(fp, found)
  local record = redis.call('HGET', task, fp)
  local _, name = unpack_record(record or '')
  name = name or '-' -- no record, or an unreadable one
  return {
    record or '',
    redis.call('ZSCORE', queue .. name, fp) or '',
    found ~= '' and found ~= name and redis.call('ZSCORE', queue .. found, fp) or '',
    redis.call('ZSCORE', delayed, fp) or '',
    redis.call('ZSCORE', lease, fp) or '',
    redis.call('HGET', holder, fp) or '',
    redis.call('ZSCORE', dead, fp) or '',
    redis.call('HGET', trouble, fp) or '',
    has_seen(fp) and 1 or 0,
    redis.call('HGET', depths, fp) or '',
    redis.call('HEXISTS', outlinks, fp),
    redis.call('ZSCORE', reopenable, fp) or '',
    redis.call('ZSCORE', trapped, fp) or '',
    redis.call('HEXISTS', probation, fp),
    redis.call('ZSCORE', revisits, fp) or '',
  }
end

local reply = {}
for at = EACH.start, #ARGV, EACH.stride do reply[#reply + 1] = facts_of(ARGV[at], ARGV[at + 1]) end
return reply
