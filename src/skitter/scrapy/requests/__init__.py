"""Scrapy's requests as plain data, without pickle.

adopt    Take over the queue and dupefilter of a scrapy-redis crawl
codec    Scrapy's requests as the frontier's, and back; feed messages as requests
pickled  Reads scrapy-redis pickles as data: no class that a pickle names is imported or called
release  The way back: writes a job's queue and seen-set as scrapy-redis reads them
values   Converts values in meta and cb_kwargs to plain data and back, without pickle
"""
