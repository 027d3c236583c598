"""The bundled website: a bookshop on loopback, with everything that goes wrong on real ones.

`python -m skitter.demo.site` opens it at http://localhost:8000/, to look at in a browser.

addresses   The shop's addresses: how links spell them, which are the same page, who requested which
answers     The shop's answers: the page combined with the behaviour of its path
behaviour   Which pages misbehave, and how
catalogue   What the bookshop sells: generated from a seed
connection  One client's connection: requests in, one at a time, answers out
html        The pieces of a page: its frame, its shelves, its lists
http1       HTTP/1.1 as bytes: the head of a request in, an answer out (RFC 9112)
pages       The page at each address of the shop: `Pages.body("/books/...")` is text, or None
server      The bookshop, open: a small HTTP/1.1 server on loopback
special     Pages not for everybody: members' editions, signed copies, rare books
"""

from skitter.demo.site.addresses import AccessLog, Entry
from skitter.demo.site.server import BookShop

__all__ = ["AccessLog", "BookShop", "Entry"]
