"""The core shared by our workers, Celery pumps and Scrapy nodes, whatever their process model.

stages/     the way of a page: one file per stage, in one list
attempt     one request: runs its stages until there is an outcome
parts       what the stages of a worker share
visit       the state of one attempt
verdict     what to do with a response or an error; pure
redirects   the request that a redirect asks for, and what another origin may see of it; pure
outcomes    how an attempt ended
memory      links the frontier is known to have: most cost a look-up, not a call
outbox      results on their way to the server; each stays until the server has it
departures  when a request may leave, and reporting when it did
leases      which leases are on their last chance, and which were lost
quality     what handlers find, counted until the next heartbeat
liveness    which processes run, and giving back what dead ones held
watchdog    ends a process that hangs
"""
