"""Benchmarks: Skitter against its goals, and against other tools on the same machine.

python -m benchmarks frontier     the queue alone: its speed, its memory, lease() with many hosts
python -m benchmarks crawl        fetch, parse, follow, store: speed, Celery, scale, memory, profile
python -m benchmarks scrapy       one Scrapy process on three schedulers

The machine is busy or slow as it likes: goals are ratios and bytes, never seconds, and contenders
take turns in one run. Whatever competes is a process of its own; sites and servers are too.

    contest                  contenders, their turns, the rows that compare them, goals
    suite, report, render    parts in their order; what was found; how it is shown
    ground, site, synthetic  a private server, nginx with pages, pages made up on request
    worker, bare             our contenders, as processes
    peers, rivals/           other tools: their environments, and the scripts that run in them
    frontier/, crawl/, scrapy_node   the parts: a class each, whose fields are its sizes
"""
