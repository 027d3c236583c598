"""Commands: each parses, calls and renders.

archive     Archives of a crawl: read them, and run handlers on them again
automation  Programs that work with a job: schedule, webhook, token
check       Account for every URL, and explain one: audit, why
dead        Dead letters: list, show, retry, drop, export
jobs        Feeding and watching jobs: push, adopt, rejected
leaving     What leaves a job: pages that are forgotten, and all of it, back to another system
map         List a site's pages without crawling it: map
metrics     Figures of a crawl: metrics, quality, hosts
one_page    One page as a worker sees it, without a job
project     Before a crawl: demo, new, config, plan
proxies     Proxies: test, stats, bench, forget
runs        Runs: agent, start, runs
server      The embedded server: up, down, doctor
shell       Look at one page: fetch, shell
steer       Steering jobs: create, pause, resume, drain, cancel, purge, set, host
workers     The workers of a job: logs, scale, top
"""
