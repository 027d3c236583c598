"""The core that our workers, Celery pumps and Scrapy nodes share. It knows no process model.

memory      links that the frontier has for certain, so that most cost a look-up and no call
outbox      results on their way to the server: nothing leaves it before the server has it
departures  when a request may leave, and telling the frontier when it did
leases      which lease is on its last chance; which were lost while they were worked on
quality     what handlers find, counted until the next heartbeat
liveness    which processes run, and what those held that do not
watchdog    a process that hangs ends itself
"""
