"""The worker: leases requests, fetches pages, runs handlers, sends the outcomes.

verdict     what to do with a response or an error; pure
redirects   the request that a redirect asks for, and what another origin may see of it; pure
robots      what robots.txt allows, fetched once per host for the whole fleet
attempt     one request: robots, fetch, handler -> one outcome
outcomes    how an attempt ended
delivery    outcomes, sent in batches
loop        one process: keep N attempts going, extend leases, stop cleanly
assembly    a worker and its parts, opened from a spider and its configuration
"""
