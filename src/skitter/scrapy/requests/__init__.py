"""Scrapy's requests as plain data, without pickle.

adopt    Take over the queue and dupefilter of a scrapy-redis crawl
codec    Scrapy's requests as the frontier's, and back; feed messages as requests
pickled  Reads scrapy-redis pickles as data: no class that a pickle names is imported or called
values   Converts values in meta and cb_kwargs to plain data and back, without pickle
"""
