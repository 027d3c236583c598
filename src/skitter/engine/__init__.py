"""The core shared by our workers, Celery pumps and Scrapy nodes, whatever their process model.

memory      links the frontier is known to have: most cost a look-up, not a call
outbox      results on their way to the server; each stays until the server has it
departures  when a request may leave, and reporting when it did
leases      which leases are on their last chance, and which were lost
quality     what handlers find, counted until the next heartbeat
liveness    which processes run, and giving back what dead ones held
watchdog    ends a process that hangs
"""
