"""What the bookshop sells: generated from a seed, the same on every machine and every Python."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Final, TypeVar

from skitter.errors import BadOption

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


CATEGORIES: Final = (
    *("Fiction", "Mystery", "Science Fiction", "Poetry", "History"),
    *("Travel", "Biography", "Children's Books", "Fantasy", "Philosophy"),
    *("Art & Design", "Music", "Cookery", "Gardening", "Nature"),
    *("Astronomy", "Mathematics", "Computing", "Engineering", "Medicine"),
    *("Psychology", "Politics", "Economics", "Law", "Religion"),
    *("Mythology", "Drama", "Short Stories", "Letters & Diaries", "Essays"),
    *("Humour", "Comics", "Crafts", "Sport", "Sailing"),
    *("Railways", "Architecture", "Photography", "Languages", "Local Interest"),
)

# Two to be encoded as windows-1252, whose quotation marks Latin-1 lacks.
OLD_TITLES: Final = ("The “Café Noir” Murders", "Señor Ibáñez\u2019s Umbrella")

# Titles that careless programs garble: markup, accents, another script, another encoding.
AWKWARD_TITLES: Final = (
    "Salt & Ashes",
    "Less < More > Enough",
    *OLD_TITLES,
    "東京の雨",
    'The Word "Perhaps"',
    "Übermorgen, früh um fünf",
    "Œuvres complètes \u2013 tome premier",
)

ADJECTIVES: Final = (
    *("Silent", "Crooked", "Amber", "Forgotten", "Northern", "Paper", "Distant", "Burning"),
    *("Hollow", "Patient", "Restless", "Second", "Borrowed", "Winter", "Broken", "Gentle"),
    *("Unwritten", "Hidden", "Copper", "Last", "Wandering", "Blue", "Quiet", "Salted"),
    *("Impossible", "Ordinary", "Midnight", "Careless", "Invisible", "Golden", "Slow", "Lost"),
)
NOUNS: Final = (
    *("Harbour", "Orchard", "Lantern", "River", "Clock", "Garden", "Letter", "Island"),
    *("Bridge", "Mirror", "Forest", "Cathedral", "Compass", "Storm", "Piano", "Map"),
    *("Winter", "Library", "Window", "Tide", "Mountain", "Key", "Thread", "Station"),
    *("Bell", "Kitchen", "Horizon", "Sparrow", "Machine", "Ladder", "Feast", "Shore"),
)
PEOPLE: Final = (
    *("Cartographer", "Beekeeper", "Watchmaker", "Librarian", "Ferryman", "Gardener", "Widow"),
    *("Translator", "Astronomer", "Baker", "Collector", "Surgeon", "Apprentice", "Sailor"),
    *("Forger", "Violinist", "Gravedigger", "Printer", "Conductor", "Lamplighter"),
)
PLACES: Final = (
    *("Lisbon", "Trieste", "Bergen", "Samarkand", "Ghent", "Valparaíso", "Kraków", "Oporto"),
    *("Tallinn", "Marrakesh", "Leith", "Odesa", "Riga", "Cádiz", "Hokkaido", "Basel"),
    *("Galway", "Zanzibar", "Québec", "Malmö"),
)

FIRST_NAMES: Final = (
    *("Ada", "Bruno", "Clara", "Dmitri", "Elif", "Farid", "Greta", "Hugo", "Ines", "Jonas"),
    *("Keiko", "Liam", "Maren", "Noor", "Oskar", "Priya", "Quentin", "Rosa", "Soren", "Tove"),
    *("Umberto", "Vera", "Wanda", "Xavier", "Yusuf", "Zoë"),
)
LAST_NAMES: Final = (
    *("Abernathy", "Brandt", "Castellano", "Dubois", "Eriksen", "Fontaine", "Grünwald"),
    *("Haddad", "Ibáñez", "Jankowski", "Kowalczyk", "Lindqvist", "Moreau", "Nakamura"),
    *("O'Brien", "Petrov", "Quiroga", "Rossi", "Sørensen", "Thackeray", "Ulrich", "Vance"),
    *("Whitlock", "Ximénez", "Yamada", "Zeller"),
)

# Sentences of a description, with {person} and {place} to fill in.
OPENINGS: Final = (
    "A {person} returns to {place} after twenty years and finds the house lit.",
    "In {place}, on the shortest day of the year, a {person} receives a parcel meant for another.",
    "Nobody in {place} remembers who sent for the {person}, and nobody will admit it.",
    "When the ferries stop running to {place}, a {person} begins to count what is left.",
    "Every spring the {person} of {place} opens one drawer, and only one.",
    "This is the first complete account of {place} as its {person} knew it.",
    "Part memoir, part manual, this book follows a {person} from {place} to the edge of the map.",
    "The {person} had a rule: never to leave {place} before the bells.",
)
MIDDLES: Final = (
    "What follows is a story about patience, debt and the price of bread.",
    "The chapters are short, the jokes are dry and the weather is dreadful.",
    "Old letters, a broken clock and an unlikely friendship lead to the truth.",
    "With drawings by the author and a fold-out map.",
    "Read it slowly: the footnotes know more than the narrator.",
    "It asks what we owe to the places that made us, and does not flinch at the answer.",
    "Three voices tell it, and only one of them is lying.",
    "The diagrams alone are worth the price.",
)
ENDINGS: Final = (
    "Our staff fought over the only copy.",
    "A quiet book that stays loud for weeks.",
    "Winner of the Harbour Prize for a second novel.",
    "Recommended to anyone who has ever missed a train on purpose.",
    "The new edition corrects the map on page 112.",
    "You will look at your own street differently.",
    "Best read aloud, in winter, to someone who interrupts.",
    "Signed copies on request.",
)


DEFAULT_BOOKS: Final = 700
MIN_BOOKS, MAX_BOOKS = 50, 5000  # fewer would leave no room for everything that can go wrong
SEED: Final = 1926

SYMBOLS: Final = {"EUR": "€", "GBP": "£", "USD": "$"}

_Thing = TypeVar("_Thing")


@dataclass(frozen=True, slots=True)
class Category:
    name: str
    slug: str

    @property
    def path(self) -> str:
        return f"/categories/{self.slug}"


@dataclass(frozen=True, slots=True)
class Author:
    name: str
    slug: str

    @property
    def path(self) -> str:
        return f"/authors/{self.slug}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    number: int
    title: str
    slug: str
    author: Author
    category: Category
    cents: int
    currency: str
    stock: int
    rating: int
    upc: str
    pages: int
    year: int
    description: str

    @property
    def path(self) -> str:
        """As the server reads it: unescaped."""
        return f"/books/{self.slug}"

    @property
    def price(self) -> str:
        return f"{SYMBOLS[self.currency]}{self.cents / 100:.2f}"


@dataclass(frozen=True)
class Catalogue:
    """Everything for sale, in the order of the shelves."""

    books: tuple[Book, ...]
    categories: tuple[Category, ...]
    authors: tuple[Author, ...]

    @cached_property
    def by_category(self) -> dict[Category, list[Book]]:
        """The books of each category, by title, as its pages list them."""
        shelves: dict[Category, list[Book]] = {category: [] for category in self.categories}
        for book in sorted(self.books, key=lambda book: book.slug):
            shelves[book.category].append(book)
        return shelves

    @cached_property
    def by_author(self) -> dict[Author, list[Book]]:
        shelves: dict[Author, list[Book]] = {author: [] for author in self.authors}
        for book in self.books:
            shelves[book.author].append(book)
        return shelves

    def titled(self, title: str) -> Book:
        return next(book for book in self.books if book.title == title)


def make_catalogue(books: int = DEFAULT_BOOKS) -> Catalogue:
    """This many books; 700 fill about 60 pages of 40 categories."""
    if not MIN_BOOKS <= books <= MAX_BOOKS:
        raise BadOption("books", books, f"a number from {MIN_BOOKS} to {MAX_BOOKS:,}")
    names = CATEGORIES[: max(4, min(40, round(books * 40 / 700)))]
    categories = tuple(Category(name, slugify(name)) for name in names)
    authors = _make_authors(max(12, books * 10 // 37))
    titles = _titles(_Dice(SEED))
    made = [_make_book(n, next(titles), authors, categories) for n in range(books)]
    return Catalogue(tuple(made), categories, authors)


class _Dice:
    """Reproducible randomness: in `random`, only `Random.random()` guarantees that."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def below(self, limit: int) -> int:
        return int(self._random.random() * limit)

    def pick(self, options: Sequence[_Thing]) -> _Thing:
        return options[self.below(len(options))]


def _make_authors(number: int) -> tuple[Author, ...]:
    first, last = FIRST_NAMES, LAST_NAMES
    names: dict[str, Author] = {}
    for n in range(number):
        # Two strides without a common factor: no name repeats before all were used.
        number_of_round = n // len(first)
        name = f"{first[n % len(first)]} {last[(n * 7 + number_of_round) % len(last)]}"
        if name in names:
            name = f"{name} {'I' * (number_of_round // len(last) + 2)}"
        names[name] = Author(name, slugify(name))
    return tuple(names.values())


def _make_book(
    number: int, title: str, authors: Sequence[Author], categories: Sequence[Category]
) -> Book:
    dice = _Dice(SEED * 100_003 + number)
    return Book(
        number=number,
        title=title,
        slug=slugify(title),
        # Everyone writes one book; then some write many.
        author=authors[number] if number < len(authors) else dice.pick(authors),
        category=_choose_category(number, dice, categories),
        cents=499 + dice.below(4000),
        currency=dice.pick(("EUR",) * 6 + ("GBP", "USD")),
        stock=max(0, dice.below(26) - 3),
        rating=1 + dice.below(5),
        upc=_make_upc(number),
        pages=80 + dice.below(640),
        year=1962 + dice.below(64),
        description=_describe(dice),
    )


def _choose_category(number: int, dice: _Dice, categories: Sequence[Category]) -> Category:
    """One each, so that none is empty; then favour the first, which become the largest."""
    if number < len(categories):
        return categories[number]
    return categories[min(dice.below(len(categories)), dice.below(len(categories)))]


def _describe(dice: _Dice) -> str:
    opening = dice.pick(OPENINGS)
    person, place = dice.pick(PEOPLE).lower(), dice.pick(PLACES)
    first = re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", opening.format(person=person, place=place))
    return " ".join([first, dice.pick(MIDDLES), dice.pick(ENDINGS)])


def _make_upc(number: int) -> str:
    """Eleven digits and their check digit, as on a real back cover."""
    digits = f"{(number + 1) * 48_271_003_337 % 10**11:011d}"
    total = 3 * sum(int(digit) for digit in digits[::2]) + sum(int(d) for d in digits[1::2])
    return f"{digits}{-total % 10}"


def _titles(dice: _Dice) -> Iterator[str]:
    """Awkward ones early, so that small shops have them too; no two with the same slug."""
    awkward = list(AWKWARD_TITLES)
    used = {slugify(title) for title in AWKWARD_TITLES}
    for number in count():
        if number % 5 == 2 and awkward:
            yield awkward.pop(0)
            continue
        while (slug := slugify(title := _invent_title(dice))) in used:
            pass
        used.add(slug)
        yield title


def _invent_title(dice: _Dice) -> str:
    adjective, noun, other = dice.pick(ADJECTIVES), dice.pick(NOUNS), None
    while other in (None, noun):
        other = dice.pick(NOUNS)
    person, place = dice.pick(PEOPLE), dice.pick(PLACES)
    shapes = (
        f"The {adjective} {noun}",
        f"The {person}'s {noun}",
        f"{_article(noun)} {noun} in {place}",
        f"The {noun} and the {other}",
        f"The {person} of {place}",
        f"{_article(adjective)} {adjective} {noun} for the {person}",
    )
    return dice.pick(shapes)


def _article(word: str) -> str:
    return "An" if word[0] in "AEIOU" else "A"


def slugify(title: str) -> str:
    """Lower-case words joined by hyphens; drops accents, keeps letters of other scripts."""
    plain = unicodedata.normalize("NFKD", title.replace("ø", "o").replace("Œ", "Oe"))
    plain = "".join(char for char in plain if not unicodedata.combining(char))
    plain = re.sub("['\u2019]", "", plain.lower())
    return unicodedata.normalize("NFC", "-".join(re.findall(r"\w+", plain)))
