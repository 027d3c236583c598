"""Commands: each parses, calls and renders.

archive     Archives of a crawl: list, show, get, pack, prune
automation  Programs that work with a job: schedule, webhook, token
check       Account for every URL, explain one, and answer probes: audit, why, health
dead        Dead letters: list, show, retry, drop, export
jobs        What goes into a job, and what it rejects: push, adopt, rejected
leaving     What leaves a job: pages that are forgotten, a list of those it has seen
map         List a site's pages without a crawl or a job: map
metrics     Figures of a crawl: metrics, quality, hosts
one_page    One page as a worker sees it, without a job
project     Before a crawl: demo, new, config, plan
proxies     Proxies: test, stats, bench, forget
runs        Runs of spiders that agents offer, and what they find: agent, start, runs, tail
server      The embedded server: up, down, doctor
shell       Look at one page: fetch, shell
steer       Steering jobs: create, pause, resume, drain, cancel, purge, set, host
workers     The workers of a job: logs, scale, top
"""
