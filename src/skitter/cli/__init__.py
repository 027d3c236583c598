"""The command line: each command parses, calls and renders. Data on stdout, progress on stderr.

child         A worker, loader or dashboard that `run` started, without what only a terminal needs
commands/     Commands: each parses, calls and renders
common        What all commands share: common options, and access to the server
crawl         Crawling: run, crawl, worker
dashboard     The HTTP API and the dashboard: serve, and --dashboard alongside a crawl
failed_pages  Pages that failed, as the server keeps them: to be looked at, and handled here
flags         Command flags, made from the declared options
main          The entry point, and the only place that turns errors into exit codes
menu          The menu of commands: `skitter --help`, `--version`, completion
outputs       Items into databases and files: load, export
parameters    Click's commands, made from functions whose parameters are annotated
running       A crawl from its seeds to its report, by processes here or by Celery's workers
show/         What commands show: data, progress, the live view
started       The processes of an agent: one that carries out a run
status        What `skitter status` shows
tests         Tests of spiders on saved pages: test, test add, test accept
tuning        The CPU time of our processes: when they collect garbage, and to whom they give way
"""
