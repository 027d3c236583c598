"""The bookshop's vocabulary: what titles, names and descriptions are made of."""

from __future__ import annotations

from typing import Final

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
