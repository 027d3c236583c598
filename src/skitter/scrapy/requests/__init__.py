"""Scrapy's requests as plain data, without pickle.

adopt   Take over the queue and dupefilter of a scrapy-redis crawl
codec   Scrapy's requests as the frontier's, and back; feed messages as requests
values  Values as plain data, and scrapy-redis pickles read as such
"""
