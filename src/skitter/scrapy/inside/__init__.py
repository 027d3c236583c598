"""Inside Scrapy: its downloads, where they may go, and what is refused.

downloads  Downloads: when they leave, what the answers say, and their figures
outbound   Where Scrapy's downloader may go: no private address, no foreign proxy
refused    What is refused or dropped: bad settings, requests, responses, items
"""
