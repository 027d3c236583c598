"""Processes on this machine: as many as requested, restarted when they die.

    plan         how many workers there should be; pure
    output       what they print, for the terminal
    children     child processes: start, restart, stop
    pool         who fetches the pages: processes here, or another pool such as Celery's
    supervisor   runs a pool and a loader until the crawl is over

It starts processes and never imports what they run: a worker that crashes its interpreter harms
no other. All its state is on the server or in the command line.
"""
