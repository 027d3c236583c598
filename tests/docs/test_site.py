"""The docs site builds without a warning, its links lead somewhere, and it loads nothing from
elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from selectolax.lexbor import LexborHTMLParser

DOCS = Path(__file__).parents[2] / "docs"
#: The whole site is built: 12 s of processor time, more than a minute on a busy machine.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", DOCS, out]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (built.returncode, built.stderr) == (0, "")
    return out


@pytest.fixture(scope="module")
def pages(site):
    return {path: LexborHTMLParser(path.read_text()) for path in site.rglob("*.html")}


def test_every_page_of_the_docs_is_on_the_site(site):
    missing = [
        str(source.relative_to(DOCS))
        for source in DOCS.rglob("*.md")
        if not (site / source.relative_to(DOCS)).with_suffix(".html").exists()
    ]
    assert missing == []


def test_no_link_and_no_anchor_is_broken(pages):
    ids = {path: {node.id for node in tree.css("[id]")} for path, tree in pages.items()}
    broken = []
    for path, tree in pages.items():
        for node in tree.css("[href], [src]"):
            address = urlsplit(node.attributes.get("href") or node.attributes.get("src") or "")
            if address.scheme or address.netloc:
                continue
            target = (path.parent / unquote(address.path)).resolve() if address.path else path
            if not target.is_file():
                broken.append(f"{path.name}: {address.path}")
            elif address.fragment and unquote(address.fragment) not in ids.get(target, ()):
                broken.append(f"{path.name}: {target.name}#{address.fragment}")
    assert broken == []


def test_nothing_is_loaded_from_elsewhere(site, pages):
    loaded = {
        node.attributes.get("src") or node.attributes.get("href") or ""
        for tree in pages.values()
        for node in tree.css("[src], link[rel~=stylesheet], link[rel~=preload], link[rel~=icon]")
    }
    assert [one for one in loaded if urlsplit(one).netloc] == []

    imported = re.compile(r"""(?:url\(|@import|import\(|fetch\()\s*["']?(?:https?:)?//""")
    scripts = [*site.rglob("*.css"), *site.rglob("*.js")]
    assert [one.name for one in scripts if imported.search(one.read_text())] == []
