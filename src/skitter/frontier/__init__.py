"""The frontier: a shared queue of URLs on Redis or Valkey, in which no URL is ever lost.

Mercator's front and back queues as server structures, and one Lua script per verb:

    add -> [pending] -> lease -> [leased] -> complete -> [done]
              ^                     |------> retry ----> [delayed] -> pending again
              |                     |------> bury -----> [dead]    -> revive: pending again
              +---- reap, release --+

Each request is in exactly one of these states; `skitter.frontier.audit` checks it.

adoption     Take over a home-made queue on Redis: keys that hold the URLs to fetch, and those seen
audit/       Checks that every URL of a job is accounted for, and explains where one is and why
completions  Completions: checked and encoded for complete.lua, with links that may be offered again
control      Steer a job while it runs: its state, its limits, its hosts
dead         Dead letters: read them, bring them back, drop them
delays       When a host's next request is due: its delay, its record, its clock
feed         Requests from outside, and links that are kept out
frontier     The frontier: every URL of a job in exactly one state, one script per verb
identities   How Scrapy tells pages apart
items        Items from completed pages, in a stream until all their readers have acknowledged them
jobs         Jobs on a server: create, open, list, purge
quotas       Quotas of tenants: what all jobs of one name pattern may have together (docs/adr/0104)
records/     What a job keeps beside its URLs, for operators, supervisors and other engines
requests     Requests, checked and encoded for the scripts that accept them
seen         The seen-set: every fingerprint that a job has seen, in an exact set or a Bloom filter
sites/       What the fleet knows about sites: hosts, sessions, routes, pages
totals       A job over all its shards: its options, its state, its counts, its budget
transport/   Transport: connecting to the server, its keys, and calling scripts on it
workers      The processes of a job: their heartbeats, how many there should be, and their log
"""
