"""A crawl from its seeds to its report.

plan      what to crawl, with which settings
course    how a crawl begins and ends, whichever engine runs it
script    a crawl in this process: `spider.run()`
reasons   what went wrong, and how often
routes    what each proxy delivered
replicas  what is waited for while no replica confirms
"""
