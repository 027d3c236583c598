"""The engine: leases requests, makes an attempt at each, sends the outcomes.

Our workers, Celery pumps and Scrapy nodes share it, whatever their process model.

assembly    A worker and its parts, opened from a spider and its configuration
attempt     One attempt at a request: its stages, one after the other, until there is an outcome
caches      What a worker remembers of what the fleet shares: robots.txt, sessions
delivery    Outcomes of attempts, sent to the frontier in batches
departures  Departures: when a request may leave, and reporting when it did
keeping     Keeps the pages of a worker: before they are completed, and in the index afterwards
leases      Leases: which may run, which are lost, and those that dead processes held
loop        One process: keep N attempts going, send what comes of them, stop cleanly
outbox      Results on their way to the server, and links that it is known to have
parts       What a worker is given: its options, and what its stages share
proxies/    Routes: how requests leave, and which one is best
pulse       The pulse of a process: heartbeats, its log, and what it counted meanwhile
rendering   Fetch a page or render it, as its handler wants or the page needs
stages/     The way of a page: the list of its stages, a file here for each kind
verdict     The verdict: what becomes of a request, given how its attempt went
visit       Visit: the state of one attempt, shared by its stages, and the outcomes that end it
watchdog    Finds what hangs: processes, and lines of user code that block the event loop
"""
