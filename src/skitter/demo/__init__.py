"""What `skitter demo` crawls: a bookshop on loopback (`site/`), and the spiders for it.

books    The demo's spider: every book of the bundled bookshop
members  The demo's second spider: members' editions, behind a login
offer    What the shop's smaller spiders scrape from a book's page
rare     The demo's spider for a shop that bans one of our two proxies, and the proxies
signed   The demo's third spider: signed copies, whose prices only a browser shows
site/    The bundled website: a bookshop on loopback, with everything that goes wrong on real ones
"""

from pathlib import Path

SPIDER, MEMBERS, RARE, SIGNED = (
    Path(__file__).with_name(name) for name in ("books.py", "members.py", "rare.py", "signed.py")
)
