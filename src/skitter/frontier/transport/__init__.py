"""Transport: connecting to the server, its keys, and calling scripts on it.

blocking      The blocking client: redis-py's
connection    Connect to the server, repeat calls whose reply was lost
endpoints     Server URLs: the schemes we support; and the names of our processes on the server
failures      Failures of the server or the connection: redis-py's errors become ours
keys          The names of all keys on the server, defined only here
messages      Encode values for the scripts, decode their replies, and send batches to shards
redis_client  redis-py's asyncio client, counting every connection it makes
redis_errors  redis-py's errors, imported when the first one is needed: where all goes well
scripts       Turn the Lua files into callable scripts
shard         One shard of a job: turns verbs into script calls
shard_calls   Shards that are away: those that answer do not wait for them
sync          Calls without an event loop, and calls that count once a replica has them
verbs         One method per Lua verb
"""
