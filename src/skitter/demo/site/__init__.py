"""The bundled website: a bookshop on loopback, with everything that goes wrong on real ones.

    words, catalogue     what it sells, generated from a seed
    addresses            the many spellings of a link, and which mean the same
    html, pages          the page at each address
    members              what needs a login, and what only a browser shows
    rare                 a neighbour behind proxies, one of which it bans
    behaviour            which paths misbehave, and how
    wire, answers        HTTP as bytes; page and behaviour combined into one answer
    connection, server   the sockets; `BookShop`
    log                  who requested what, and when

`python -m skitter.demo.site` opens it at http://localhost:8000/, to look at in a browser.
"""

from skitter.demo.site.log import AccessLog, Entry
from skitter.demo.site.server import BookShop

__all__ = ["AccessLog", "BookShop", "Entry"]
