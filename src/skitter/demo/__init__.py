"""What `skitter demo` crawls: a bookshop on loopback (`site/`), and the spider for it."""

from pathlib import Path

SPIDER = Path(__file__).with_name("books.py")
