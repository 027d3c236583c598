--[[
log: say something to everybody who follows the job. A job that has gone has no log.

KEYS   events   stream the log, capped
ARGV   keep     int    about how many lines
EACH   level    text
       worker   text   who says it
       text     text
       url      text   the page that it is about, or nothing
REPLY  int    how many lines were written
COST   O(lines)
]]
--@include once
for at = EACH.start, #ARGV, EACH.stride do
  redis.call('XADD', events, 'MAXLEN', '~', keep, '*',
    'level', ARGV[at], 'worker', ARGV[at + 1], 'text', ARGV[at + 2],
    'url', ARGV[at + 3])
end
return remember((#ARGV - EACH.start + 1) / EACH.stride)
