"""The pages of a crawl, kept as WARC files: every response that a handler saw.

    record   a kept response as a WARC record, and back; secrets are left out
    writer   one file per process, in order, on disk before the page is completed
    index    which record is whose: a line for each page that was completed
    fetcher  the archive instead of the web, for `replay` and `--cache`
    diff     what a changed spider changes, field by field

A record is written before its page is completed, and the index is made from completions: what a
worker wrote for a lease that it had lost is in the file, but never replayed.
"""
