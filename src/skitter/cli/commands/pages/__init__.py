"""Commands that look at pages, kept ones and those of the web.

again     Handlers on pages once more: replay, redo
archive   Archives of a crawl: list, show, get, push, pull, pack, prune
map       List a site's pages without a crawl or a job: map
one_page  One page as a worker sees it, without a job
shell     Look at one page: fetch, shell
"""
