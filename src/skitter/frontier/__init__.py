"""The frontier: a shared queue of URLs on Redis or Valkey, in which no URL is ever lost.

Mercator's front and back queues as server structures, and one Lua script per verb:

    add -> [pending] -> lease -> [leased] -> complete -> [done]
              ^                     |------> retry ----> [delayed] -> pending again
              |                     |------> bury -----> [dead]    -> revive: pending again
              +---- reap, release --+

Each request is in exactly one of these states; `skitter.frontier.audit` checks it.
"""
