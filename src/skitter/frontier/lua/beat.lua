--[[
beat: record the heartbeat of a worker, or of the supervisor of a machine. It works on a server that
is out of memory, and fails if the job is gone.

FLAGS  allow-oom
KEYS   workers    hash   worker -> msgpack of its last heartbeat
       machines   hash   supervisor -> msgpack of its last heartbeat
ARGV   name       text   worker or supervisor
       message    bytes  msgpack of the heartbeat
       supervises int    1: it is a supervisor
REPLY  int    1
COST   O(1)
]]
--@include limits
redis.call('HSET', supervises == 1 and machines or workers, name, message)
return 1
