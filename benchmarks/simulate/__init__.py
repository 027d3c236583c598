"""A polite crawl of an imaginary web: the real scripts on a virtual clock.

web      hosts with Zipf-distributed sizes, links, slow and dead hosts; pure
crawl    leases, virtual fetches and completions, until enough pages are done
outcome  the result: pages/s, what limited it, memory, the server's time, fairness
"""
