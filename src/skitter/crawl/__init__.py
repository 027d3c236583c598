"""A crawl from its seeds to its report, and the processes on this machine that make it.

It starts processes and never imports what they run: a worker that crashes its
interpreter harms no other. All its state is on the server or in the command line.

agent       An agent: takes runs of the spiders in its list
carried     A run, as the process knows it that carries it out for an agent
children    Child processes: started, restarted when they die, stopped together
findings    What went wrong in a crawl: failures by kind, and handlers that found nothing
job_loader  Loaders: each stores the items of a job in one output
lifecycle   How a crawl begins and ends, whichever engine runs it
outputs     The outputs of a job, as named by the user: opened, claimed, filled
plan        What to crawl, whether that can begin, and with how many workers
printed     What child processes print: to a file, and from there to the terminal
redo        Pages that are handled again: from the archive where it has them, else fetched
replay      Handlers on kept pages: a crawl whose web is the archive
replicas    URLs that count only once a replica has them: what a caller waits for, and what to do
script      Crawls in scripts and notebooks: `spider.run()`, and `items()` for what they stored
supervisor  Runs a pool of workers and a loader until the crawl is over
watch       What is shown of a job
"""
