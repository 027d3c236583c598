"""Commands: each parses, calls and renders.

automation  Programs that work with a job: schedule, webhook, token
check       Account for every URL, explain one, and answer probes: audit, why, health
dead        Dead letters: list, show, retry, drop, export
jobs        What goes into a job, and what it rejects: push, adopt, rejected
leaving     What leaves a job: pages that are forgotten, a list of those it has seen
metrics     Figures of a crawl: metrics, quality, hosts
pages/      Commands that look at pages, kept ones and those of the web
prepare     Before a crawl: demo, new, config, plan
proxies     Proxies: test, stats, bench, forget
runs        Runs of spiders that agents offer, and what they find: agent, start, runs, tail
server      The embedded server: up, down, doctor
steer       Steering jobs: create, pause, resume, drain, cancel, purge, set, host
tenants     Quotas of tenants: set, list, remove
workers     The workers of a job: logs, scale, top
"""
