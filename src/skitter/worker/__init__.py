"""The worker: leases requests, makes attempts at them, sends the outcomes.

delivery    outcomes, sent in batches
loop        one process: keep N attempts going, extend leases, stop cleanly
assembly    a worker and its parts, opened from a spider and its configuration
routed      a fetcher that sends each request by a route
"""
