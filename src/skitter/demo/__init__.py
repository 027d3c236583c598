"""What `skitter demo` crawls: a bookshop on loopback (`site/`), and the spiders for it."""

from pathlib import Path

SPIDER, MEMBERS, RARE, SIGNED = (
    Path(__file__).with_name(name) for name in ("books.py", "members.py", "rare.py", "signed.py")
)
