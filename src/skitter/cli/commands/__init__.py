"""Commands: each parses, calls and renders.

archive     Archives of a crawl: read them, and replay them
automation  Programs that work with a job: schedule, webhook, token
check       Account for every URL, and explain one: audit, why
dead        Dead letters: list, show, retry, drop, export
demo        Crawl a bundled site: demo
jobs        Feeding and watching jobs: push, adopt, rejected
map         List a site's pages without crawling it: map
metrics     Figures of a crawl: metrics, quality, hosts
one_page    One page as a worker sees it, without a job
project     Before a crawl: new, config, plan
proxies     Proxies: test, stats, bench, forget
server      The embedded server: up, down, doctor
shell       Look at one page: fetch, shell
steer       Steering jobs: create, pause, resume, drain, cancel, purge, set, host
workers     The workers of a job: logs, scale, top
"""
