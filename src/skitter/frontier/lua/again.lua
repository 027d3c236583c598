--[[
again: offer the pages of a round, each once. One that is done or dead becomes pending once more, a
new one is added, one on its way stays: docs/adr/0050-rows-of-the-last-visit.md.

Without a round, pages are to be handled again, whatever their last visit found; a new one is not
added: docs/adr/0079-redo.md.

KEYS   round    zset   fingerprint -> ms of the last round that it was offered in
       revisits zset   fingerprint of a done page -> ms of its next visit
       dead     zset   fingerprint -> ms
       trouble  hash   fingerprint -> msgpack
       task     hash   fingerprint -> record
       outlinks hash   fingerprint of a done page -> its links
ARGV   due_ms   text   when the round was due; empty: there is none
EACH   fp       text   fingerprint
       host     text   politeness key
       priority int
       depth    int    links from a seed
       record   bytes  lib/record.lua
REPLY  ints   a code per request: NEW (it is pending now), SEEN, FULL, DEEP or CLOSED; LOST: it is
              unknown, and there is no round
COST   O(requests * log N)
]]
--@include once accept room enqueue undo later
local room = room_left()
local names = {}
for at = EACH.start, #ARGV, EACH.stride do names[#names + 1] = ARGV[at + 1] end
load_hosts(names)

-- Whether the page was over, and so gets the record that is offered. One to be revisited keeps its
-- own, with the ETag and the like.
local function take_off(fp, name)
  if redis.call('ZREM', dead, fp) == 1 then
    redis.call('HDEL', trouble, fp)
    return true
  end
  local rests = redis.call('ZREM', revisits, fp) == 1
  local record = redis.call('HGET', task, fp)
  if record and not rests then return false end
  if not take_off_done(name) then count('again', 1) end
  return true, due_ms ~= '' and rests and limits.revisit == 1 and record
end

local function visit_again(fp, at)
  if due_ms ~= '' and redis.call('ZSCORE', round, fp) == due_ms then return SEEN end
  local is_over, kept = take_off(fp, ARGV[at + 1])
  if not is_over then return SEEN end
  if due_ms ~= '' then note_again() end
  local record = kept or ARGV[at + 4]
  local priority, name = unpack_record(record)
  redis.call('HSET', task, fp, record)
  if keeps_depths then
    redis.call('HDEL', outlinks, fp) -- its next visit brings them again
    redis.call('ZREM', reopenable, fp)
  end
  enqueue(fp, name, priority)
  return NEW
end

local function offer(fp, at)
  local is_known = has_seen(fp)
  if limits.open and room > 0 and is_known then return visit_again(fp, at) end
  if due_ms ~= '' then return accept(at, room > 0) end
  if not limits.open then return CLOSED end
  return is_known and FULL or LOST
end

local codes, offered = {}, {}
for at = EACH.start, #ARGV, EACH.stride do
  local fp = ARGV[at]
  local code = offer(fp, at)
  if code == NEW then room = room - 1 end
  if due_ms ~= '' and (code == NEW or code == SEEN) then
    offered[#offered + 1], offered[#offered + 2] = due_ms, fp
  end
  codes[#codes + 1] = code
end
bulk('ZADD', round, offered)
if due_ms ~= '' then
  local before = redis.call('ZRANGE', round, '-inf', '(' .. due_ms, 'BYSCORE', 'LIMIT', 0, #names)
  bulk('ZREM', round, before)
end
write_accepted()
commit()
return remember(codes)
