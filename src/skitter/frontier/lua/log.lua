--[[
log: write lines to the job's log, for everyone who follows it. A purged job has none.

KEYS   events   stream the log, capped
ARGV   keep     int    cap, in lines, roughly
EACH   level    text
       worker   text   who wrote it
       text     text
       url      text   the page it is about, or empty
       happened text   ms at which it happened, if that is known; empty: now
REPLY  int    how many lines were written
COST   O(lines)
]]
--@include once
for at = EACH.start, #ARGV, EACH.stride do
  redis.call('XADD', events, 'MAXLEN', '~', keep, '*',
    'level', ARGV[at], 'worker', ARGV[at + 1], 'text', ARGV[at + 2],
    'url', ARGV[at + 3], 'at', ARGV[at + 4])
end
return remember((#ARGV - EACH.start + 1) / EACH.stride)
