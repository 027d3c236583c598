"""A crawl from its seeds to its report.

plan      what is to be done, with which settings
course    how it begins and ends, whoever does the work in between
script    the work in this process: `spider.run()`
reasons   what went wrong how often
"""
