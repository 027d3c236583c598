"""A node: the frontier's side of a Scrapy process, on its own thread.

cookies       Cookies that all nodes share: Scrapy's own jars
housekeeping  The job that nodes share, and what a node does besides its pump
mailbox       What the engine's thread and the node's thread exchange
node          A node: the frontier's side of a Scrapy process, on a thread with its own event loop
prefetch      What a node reads ahead: leases, and messages that others push
sender        Sends what the engine put into the outbox: requests, pages, items, refusals
"""
