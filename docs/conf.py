"""The docs site: `make site`. Pages are plain Markdown; what stands where in the menu is here."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "Skitter"
copyright = "the Skitter authors"
extensions = ["myst_parser"]
myst_heading_anchors = 3  # a link to a heading is the one that GitHub has
smartquotes = False  # or two hyphens of an option would become a dash
html_theme = "furo"
html_title = "Skitter"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
pygments_style = "friendly"
pygments_dark_style = "monokai"
nitpicky = True  # a link that leads nowhere is a warning, and `make site` ends at a warning

# Pages in the order of the menu; a page that is not here is a warning. `folder/*` is the rest.
MENU = {
    "Start": ["quickstart", "tutorial"],
    "How to": [
        "howto/spiders",
        "howto/settings",
        "howto/sinks",
        "howto/fleet",
        "howto/runs",
        "howto/queue",
        "howto/politeness",
        "howto/robots",
        "howto/sitemaps",
        "howto/revisit",
        "howto/traps",
        "howto/quality",
        "howto/archive",
        "howto/files",
        "howto/content",
        "howto/test",
        "howto/login",
        "howto/browser",
        "howto/proxies",
        "howto/dashboard",
        "howto/live",
        "howto/api",
        "howto/webhooks",
        "howto/metrics",
        "howto/stages",
        "howto/scrapy",
        "howto/celery",
        "howto/cluster",
        "howto/deploy",
        "howto/operate",
        "howto/upgrade",
    ],
    "Coming from": [
        "coming-from/scrapy",
        "coming-from/scrapy-redis",
        "coming-from/crawlee",
        "coming-from/celery",
        "coming-from/redis-queue",
    ],
    "Understand": [
        "glossary",
        "architecture",
        "guarantees",
        "security",
        "benchmarks",
        "scaling",
        "adr/index",
    ],
    "Reference": ["reference/commands", "reference/options", "reference/*"],
}


def add_menu(app: Sphinx, page: str, text: list[str]) -> None:
    """Sphinx wants its menu in the pages, where others who show Markdown would print it."""
    if page == "index":
        text[0] += "".join(
            toctree(pages, f":hidden:\n:caption: {caption}") for caption, pages in MENU.items()
        )
    if page == "adr/index":
        text[0] += toctree(["*"], ":hidden:")


def toctree(pages: list[str], options: str) -> str:
    listed = "\n".join(pages)
    return f"\n```{{toctree}}\n:glob:\n{options}\n\n{listed}\n```\n"


def setup(app: Sphinx) -> None:
    app.connect("source-read", add_menu)
