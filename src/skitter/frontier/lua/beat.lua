--[[
beat: a worker says that it is alive. It is heard also by a full server, and not by a job that has
gone.

FLAGS  allow-oom
KEYS   workers  hash   worker -> msgpack of its last heartbeat
ARGV   name     text   worker
       message  bytes  msgpack of the heartbeat
REPLY  int    1
COST   O(1)
]]
--@include limits
redis.call('HSET', workers, name, message)
return 1
