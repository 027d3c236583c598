"""What a page says: its main part as text or Markdown, its tables, and the data that it embeds.

By turbohtml, behind these functions, so that it can be replaced (docs/adr). Each takes the markup
and the base URL of its links. The helper that tries pages runs this file on its own (parser.py): it
imports nothing of Skitter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final

import turbohtml
from turbohtml.extract import DateExtraction, dates

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Nobody reads these.
_UNSEEN: Final = (
    "script,style,noscript,template,svg,iframe,object,canvas,head,button,select,input,textarea,"
    '[hidden],[aria-hidden="true" i],[style*="display:none" i],[style*="display: none" i]'
)
#: Around the content, by their meaning.
_AROUND: Final = (
    'nav,dialog,menu,[role="navigation" i],[role="banner" i],[role="contentinfo" i],'
    '[role="search" i],[role="complementary" i],[role="dialog" i],[role="alertdialog" i],'
    '[role="menubar" i]'
)
#: Around the content, by the words of their class or id.
_NAMES: Final = re.compile(
    r"(?:^|[\s_-])(?:cookies?|consent|gdpr|onetrust|"
    r"nav-?(?:bar|cell|header|footer)?|(?:top|bottom|doc)nav|navigation|navbox|menus?|breadcrumbs?|"
    r"crumbs?|pankuzu|topicpath|top-?bar|toolbar|sidebar|sphinxsidebar|side|jumpbox|"
    r"site-?(?:header|footer|notice|sub)|page-?footer|footer|masthead|colophon|copyright|"
    r"skip-?(?:link|nav|to-content)|mw-jump-link|editsection|headerlink|hash-?link|catlinks|"
    r"share|sharing|shared-counts|social|sns|newsletter|subscribe|signup|"
    r"related|recommended|recommend|recommendations|similar|merch|upsells?|kanren|read-?more|more-on|"
    r"adverts?|advertisement|ads?|promo|sponsored|taboola|outbrain|popup|modal|overlay|announcement|"
    r"pagination|pager|prev-?next|"
    r"byline|(?:entry|post|article|page|product)_?-?(?:meta|date|dates|info)|post-?profile|user-?info|"
    r"(?:action|button)s?-?bar|actions|btn|button|post-menu|vote-?(?:cell|count)?s?|votes|"
    r"comments|comment-(?:list|form|box)|respond|feedback)(?:$|[\s_-])",
    re.IGNORECASE,
)
_BLOCKS: Final = (
    "div section aside ul ol dl header footer p form table details".split()  # noqa: SIM905
)
_NAMED: Final = ",".join(
    [f"{tag}[class]" for tag in (*_BLOCKS, "span", "a")] + [f"{tag}[id]" for tag in _BLOCKS]
)
#: Its id is that of its heading: a chapter on menus is no menu.
_CHAPTER: Final = re.compile(r"(?:^|\s)(?:section|sect\d?|level\d|chapter|refsect\d)(?:$|\s)", re.I)
#: Notes in the text are marked up as asides, too.
_NOTE: Final = re.compile(r"note|admonition|callout|warning|tip|caution|important|infobox", re.I)
_MAINS: Final = 'main,[role="main" i]'
#: A main part with less text than this, or than this share of the page, is not all of it.
_LITTLE, _SHARE = 80, 0.1
#: Lists of links between or after the text; those of an index page are its content.
_LISTS: Final = "ul,ol,table,div,p"
_LINKED: Final = 0.8
#: What a cell of a table of values does not have, and what is in a table beside its values.
_NOT_IN_CELLS: Final = "td ul,td ol,td dl,td pre,td h1,td h2,td h3,td h4"
_ROWS: Final = "td,caption,tr,tbody,thead,tfoot"
#: Lists, and what is written of them.
_BOXES: Final = "ul,ol,menu"
_ITEMS: Final = ("li", "ul", "ol", "menu")
_TEXT: Final = turbohtml.PlainText(bullet="- ", table_cell_separator=" | ")
_MARKDOWN: Final = turbohtml.Markdown()
_SPACES: Final = re.compile(r"&#(?:160|[xX][aA]0);")
_BLANK: Final = re.compile(r"[ \t\xa0]+\n|\n(?:[ \t\xa0]*\n){2,}")
_PUBLISHED: Final = DateExtraction(original=True, extensive_search=False)


def main_text(markup: str, base: str) -> str:
    """The main part of a page, in paragraphs; of a page that has none, all of its text."""
    part = _main(_parse(markup))
    _into_items(part)
    return _tidy(part.to_text(_TEXT))


def markdown(markup: str, base: str) -> str:
    """The main part as Markdown; links are absolute."""
    return _write(_main(_parse(markup)), base)


def whole_markdown(markup: str, base: str) -> str:
    """All that a reader sees, menus too, as Markdown."""
    return _write(_parse(markup), base)


def _parse(markup: str) -> Any:
    """The document without what nobody sees. A space that does not break would be written as
    `&#160;`."""
    # A pattern for all three took a fifth of the time of the page.
    markup = _SPACES.sub(" ", markup.replace("\xa0", " ").replace("&nbsp;", " "))
    document = turbohtml.parse(markup, positions=False)
    document.remove(_UNSEEN)
    _unwrap_columns(document)
    return document


def _unwrap_columns(document: Any) -> None:
    """Tables that only put lists and headings side by side: as Markdown they would be one line of
    HTML. Their cells are shown one after the other."""
    of_values = {part.closest("table") for part in document.select("th")}
    columns = {part.closest("table") for part in document.select(_NOT_IN_CELLS)} - of_values
    rows = document.select(_ROWS) if columns else []
    parts = [part for part in rows if part.closest("table") in columns]
    for part in parts:
        if part.tag in ("td", "caption"):
            part.tag = "div"
        else:
            part.unwrap()
    for table in columns:
        table.tag = "div"


def _into_items(part: Any) -> None:
    """As text, turbohtml writes no caption of a table, and of a list only its items. What authors
    put beside items, as in `<ul><pre><li>`, becomes an item; a caption stands before its table."""
    for caption in part.select("table caption"):
        caption.tag = "p"
        caption.closest("table").insert_before(caption)
    for box in part.select(_BOXES):
        for around in box.children:
            if not _is_item(around) and any(map(_is_item, around.children)):
                around.unwrap()
        item = None
        for child in box.children:
            if _is_item(child):
                item = None
            elif item is not None:
                item.append(child)
            elif child.text.strip():
                item = turbohtml.Element("li")
                child.wrap(item)


def _is_item(node: Any) -> bool:
    return getattr(node, "tag", "") in _ITEMS


def _write(part: Any, base: str) -> str:
    part.resolve_links(base)
    return _tidy(part.to_markdown(_MARKDOWN))


def _tidy(text: str) -> str:
    return _BLANK.sub(lambda it: "\n\n" if it[0].startswith("\n") else "\n", text).strip()


def _main(document: Any) -> Any:
    root = document.select_one("body") or document.select_one("html")  # of frames: no body
    whole = _size(root)
    part = _marked(root, whole)
    return _without_surroundings(part, whole) if whole else root


def _marked(root: Any, whole: int) -> Any:
    """What the page itself marks as its main part."""
    for one in root.select(_MAINS)[:1]:
        if _is_enough(one, whole):
            return _only_article(one, 0.5 * _size(one)) or one
    return _only_article(root, _SHARE * whole) or root


def _only_article(part: Any, least: float) -> Any:
    """The article in it, if there is but one, with the heading and so much of the text."""
    found = part.select("article")
    if len(found) != 1 or not _is_enough(found[0], least / _SHARE):
        return None
    is_headed = found[0].select_one("h1") is not None or part.select_one("h1") is None
    return found[0] if is_headed else None


def _is_enough(part: Any, whole: float) -> bool:
    return (size := _size(part)) >= _LITTLE and size >= _SHARE * whole


def _without_surroundings(part: Any, whole: int) -> Any:
    """Leave out menus and banners, unless next to nothing would be left."""
    kept = part.inner_html if part.tag == "body" else part.html
    part.remove(_AROUND)
    for one in part.select("header,footer,aside"):
        if _is_around(one):
            one.decompose()
    for one in part.select(_NAMED):
        if one.parent is not None and _is_named(one) and _size(one) < 0.5 * whole:
            one.decompose()
    _drop_lists(part)
    if _size(part) >= min(_LITTLE, whole / 2):
        return part
    return turbohtml.parse(kept, positions=False)


def _is_around(one: Any) -> bool:
    """Headers and footers of an article are part of it, if they are of the article only."""
    if one.tag == "aside":
        return not _NOTE.search(_name(one))
    if one.tag == "footer":
        return one.closest("blockquote") is None
    return one.select_one("h1") is None and one.closest("article,main") is None


def _is_named(one: Any) -> bool:
    return _is_name(_name(one)) and one.select_one("h1") is None


@lru_cache(maxsize=4096)  # a site has few
def _is_name(name: str) -> bool:
    return bool(name) and _NAMES.search(name) is not None


def _name(one: Any) -> str:
    attributes = one.attrs
    kind = attributes.get("class") or ""
    words = kind if isinstance(kind, str) else " ".join(kind)
    if one.tag in ("section", "span", "a") or _CHAPTER.search(words):
        return words
    return f"{words} {attributes.get('id') or ''}".strip()


def _drop_lists(part: Any) -> None:
    """Lists of three links or more with hardly any other text, if the page has other text."""
    found = []
    rest = _size(part)
    for one in part.select(_LISTS):
        links = one.select("a")
        if len(links) < 3 or one.select_one("p,pre,h1,h2") is not None:
            continue
        size = _size(one)
        if size and sum(map(_size, links)) > _LINKED * size:
            found.append((one, size))
    if rest - sum(size for _, size in found) < max(4 * _LITTLE, 0.3 * rest):
        return
    for one, _ in found:
        one.decompose()


def _size(node: Any) -> int:
    return len(node.text)


# --- data -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Data:
    """The data that a page embeds for programs, as plain dicts."""

    #: Its JSON-LD objects: those of an @graph are listed one by one.
    json_ld: list[dict[str, Any]] = field(default_factory=list)
    #: Its microdata: `type` is in "@type"; a property with several values has a list of them.
    microdata: list[dict[str, Any]] = field(default_factory=list)
    #: Without the prefix: `opengraph["title"]`.
    opengraph: dict[str, str] = field(default_factory=dict)
    twitter: dict[str, str] = field(default_factory=dict)

    def all(self, type: str) -> list[dict[str, Any]]:
        """The objects of that schema.org type, nested ones too; JSON-LD comes first."""
        return [thing for thing in self._objects if type in _types(thing)]

    def first(self, type: str) -> dict[str, Any] | None:
        """The first object of that type, such as `Product`."""
        return next((thing for thing in self._objects if type in _types(thing)), None)

    @cached_property
    def _objects(self) -> list[dict[str, Any]]:
        return [*_walk(self.json_ld), *_walk(self.microdata)]

    def as_dict(self) -> dict[str, Any]:
        """What there is."""
        names = ("json_ld", "microdata", "opengraph", "twitter")
        return {name: getattr(self, name) for name in names if getattr(self, name)}


#: How deeply objects may be nested; what is deeper is left out.
_DEEP: Final = 50


def read_data(markup: str, base: str) -> Data:
    found = turbohtml.parse(markup, positions=False).structured_data(base)
    social = found.opengraph
    return Data(
        json_ld=[node for value in found.json_ld for node in _graph(value)],
        microdata=[_plain(item, 0) for item in found.microdata],
        opengraph={k[3:]: v for k, v in social.items() if k.startswith("og:")},
        twitter={k[8:]: v for k, v in social.items() if k.startswith("twitter:")},
    )


def _graph(value: Any) -> Iterator[dict[str, Any]]:
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, dict):
            members = one.get("@graph")
            if isinstance(members, list):
                yield from (member for member in members if isinstance(member, dict))
            else:
                yield one


def _plain(item: Any, depth: int) -> dict[str, Any]:
    plain: dict[str, Any] = {"@type": _short(item.type)} if item.type else {}
    if item.id:
        plain["@id"] = item.id
    for name, values in item.properties.items():
        every = [
            value if isinstance(value, str) else _plain(value, depth + 1)
            for value in values
            if isinstance(value, str) or depth < _DEEP
        ]
        if every:
            plain[name] = every[0] if len(every) == 1 else every
    return plain


def _walk(value: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    if depth > _DEEP:
        return
    if isinstance(value, dict):
        yield value
        for one in value.values():
            yield from _walk(one, depth + 1)
    elif isinstance(value, list):
        for one in value:
            yield from _walk(one, depth + 1)


def _types(one: dict[str, Any]) -> list[str]:
    kind = one.get("@type")
    return [_short(name) for name in (kind if isinstance(kind, list) else [kind]) if name]


def _short(name: Any) -> str:
    """`Product` of https://schema.org/Product."""
    return re.split(r"[/#]", str(name).strip().rstrip("/"))[-1]


# --- tables, language, date -----------------------------------------------------------------------


def read_tables(markup: str, base: str) -> list[list[dict[str, str]]]:
    """The rows of each table with a header, as dicts by the names of its columns."""
    document = turbohtml.parse(markup, positions=False)
    found = []
    for rows in document.tables():
        if len(rows) > 1 and any(rows[0]):
            names = _unique(rows[0])
            found.append([dict(zip(names, row, strict=False)) for row in rows[1:]])
    return found


def _unique(names: list[str]) -> list[str]:
    """A column without a name has its number; the second of a name has a number, too."""
    unique: dict[str, None] = {}
    for number, name in enumerate(names, 1):
        text = " ".join(name.split()) or str(number)
        unique[text if text not in unique else f"{text} {number}"] = None
    return list(unique)


def read_language(markup: str, base: str) -> str | None:
    """As the page declares it, in lower case: `en`, `pt-br`."""
    document = turbohtml.parse(markup, positions=False)
    root = document.select_one("html")
    declared = root.attrs.get("lang") or root.attrs.get("xml:lang") if root else None
    if not declared:
        meta = document.select_one('meta[http-equiv="content-language" i],meta[name="language" i]')
        declared = meta.attrs.get("content") if meta else None
    return language_of(declared)


def language_of(declared: Any) -> str | None:
    """The first of a list, if it has the form of a language tag (BCP 47)."""
    text = str(declared or "").split(",")[0].strip().lower().replace("_", "-")
    return text if re.fullmatch(r"[a-z]{2,3}(-[a-z0-9]{1,8})*", text) else None


def read_published(markup: str, base: str) -> str | None:
    """The day, such as 2026-11-18, by its metadata, JSON-LD, <time> or canonical URL."""
    found = dates(markup, _PUBLISHED)
    return found.date if found else None
