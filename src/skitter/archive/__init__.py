"""The pages of a crawl, kept as WARC files: every response that a handler saw.

A record is written before its page is completed, and the index is made from completions: what a
worker wrote for a lease that it had lost is in the file, but never replayed.
"""
