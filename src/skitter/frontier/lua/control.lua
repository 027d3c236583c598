--[[
control: set the desired state or limits of the job. An empty value removes the limit.

FLAGS  allow-oom
KEYS   control  hash   state and limits
EACH   field    text
       value    text
REPLY  how many fields were given
COST   O(fields)
]]
for at = EACH.start, #ARGV, EACH.stride do
  if ARGV[at + 1] == '' then
    redis.call('HDEL', control, ARGV[at])
  else
    redis.call('HSET', control, ARGV[at], ARGV[at + 1])
  end
end
return (#ARGV - EACH.start + 1) / EACH.stride
