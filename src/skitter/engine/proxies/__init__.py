"""Routes: how requests leave, and which one is best.

bandit    Routes: which one to take to a domain, and what to send by it
choosing  The worker's choice of routes, by what the fleet has learned
routed    A fetcher that sends each request by a route, which its callers need not know
table     How routes do: in the fleet's crawls, and in a test of all
"""
