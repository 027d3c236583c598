"""What a job keeps beside its URLs, for operators, supervisors and other engines.

agents      Agents: which of them are there, and which spiders they have
archived    What a crawl keeps beside its rows: lines for the index of the archive
drivers     State that other engines, Celery and Scrapy, keep on the server
exposition  The metrics of all jobs, in Prometheus's text format
failed      Pages that failed: the first of each kind, for whoever repairs the spider
filters     What a job has fetched, as a file: to keep it after a purge, or for another job
health      What an operator should know about a job besides its numbers
live        Items as they are found for those who watch a job
metrics     The metrics of a job on the server: sent in one round trip, read as a chart or a table
operators   What operators leave on the server: tokens, actions, webhooks
outputs     The outputs of a job: the main one and further ones, each a reader of its items
own         Users' own metrics: until they are sent, and on the server
preview     What changed options would do to pending URLs, before they are set
runs        Runs: what was asked for, which agent has it, and what came of it
schedule    Schedules: when the rounds of a job begin
"""
