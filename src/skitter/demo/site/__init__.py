"""The bundled web site: a bookshop on loopback, with all that goes wrong on real ones.

    words, catalogue     what it sells, made from a seed
    addresses            the many spellings of a link, and which mean the same
    html, pages          what stands at each address
    members              what is behind a log-in, and what only a browser shows
    rare                 a neighbour behind proxies, of which it bans one
    behaviour            which paths misbehave, and how
    wire, answers        HTTP as bytes; the page and the behaviour become one answer
    connection, server   the sockets; `BookShop`
    log                  who asked for what, and when

`python -m skitter.demo.site` opens it at http://localhost:8000/ for a look with a browser.
"""

from skitter.demo.site.log import AccessLog, Entry
from skitter.demo.site.server import BookShop

__all__ = ["AccessLog", "BookShop", "Entry"]
