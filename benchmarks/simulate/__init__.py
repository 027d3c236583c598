"""A polite crawl of a web that does not exist: the real scripts on a virtual clock.

web      hosts with a Zipf of sizes, links, slow and dead hosts; pure
crawl    leases, virtual fetches and completions, until so many pages are done
outcome  what came of it: pages/s, what bounded it, memory, the server's time, fairness
"""
