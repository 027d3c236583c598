--[[
beat: record a worker's heartbeat. It works on a server that is out of memory, and fails if the job
is gone.

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
