"""Benchmarks: Skitter against its goals, and against other tools on the same machine.

python -m benchmarks frontier     the queue alone: its speed, its memory, lease() with many hosts
python -m benchmarks crawl        fetch, parse, follow, store: speed, Celery, scale, memory, profile
python -m benchmarks scrapy       one Scrapy process on three schedulers
python -m benchmarks million      a million pages of 1,000 hosts, while processes are killed

The machine may be busy or slow: goals are ratios and bytes, never seconds, and contenders take
turns in one run. Every contender is a separate process; so are sites and servers.

    contest                  contenders, their turns, the rows that compare them, goals
    suite, report, render    parts in order; the findings; how they are shown
    ground, site, synthetic  a private server, nginx with pages, pages generated on request
    worker, bare             our contenders, as processes
    peers, rivals/           other tools: their environments, and the scripts that run in them
    frontier/, crawl/, scrapy_node   the parts: a class each, whose fields set its sizes
"""
