"""What is measured, logged and reported of a crawl. Pure, but for log files.

logs     The log, and traces
metrics  Metrics of a crawl: what is counted and timed, and how
quality  The quality of scraped items: what each handler found, and whether that got worse
report   How a crawl went: the report at its end, and the exit code
"""
