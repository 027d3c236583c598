import pytest

from skitter.patterns import is_repetitive, number_of, shape_of


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("", ""),
        ("/", ""),
        ("/about", "/about"),
        ("/About/", "/about"),
        ("/books/17", "/books/#"),
        ("/books/17/", "/books/#"),
        ("/page-2.html", "/page-#.html"),
        ("/calendar/2026/11/", "/calendar/#"),
        ("/calendar/2026/11/5", "/calendar/#"),
        ("/calendar/2026-11-05", "/calendar/#"),
        ("/2026/11/05/what-we-did-today", "/#/slug"),
        ("/book/a-light-in-the-attic_1000", "/book/slug"),
        ("/p/123e4567-e89b-12d3-a456-426614174000", "/p/id"),
        ("/commit/0a1b2c3d4e5f", "/commit/id"),
        ("/v/dQw4w9WgXcQabcdef0", "/v/id"),
        ("/wiki/%E3%82%A2", "/wiki/slug"),
        ("/en/shop/phones/fairphone", "/en/shop/w"),
        ("/en/shop/phones/fairphone/reviews/7", "/en/shop/w/#"),
        ("/list?sort=price&page=3", "/list?page&sort"),
        ("/list?page=4&sort=name", "/list?page&sort"),
        ("/x;jsessionid=ABC123", "/x"),
        ("/a/b/a/b/a/b/", "/(repeated)"),
        ("/staff/more/more/more/", "/(repeated)"),
    ],
)
def test_what_counts_dates_or_names_is_taken_away(path, shape):
    assert shape_of(f"https://shop.example:8080{path}") == f"shop.example:8080{shape}"


def test_segments_that_come_twice_are_no_repetition():
    assert not is_repetitive(["a", "b", "a", "b"])
    assert not is_repetitive(["a", "b", "c", "a", "d", "a"])
    assert is_repetitive(["x", "a", "b", "a", "b", "a", "b", "y"])


def test_a_shape_is_short_whatever_the_url():
    for url in (
        "https://a.test/" + "x/" * 4000,
        "https://a.test/?" + "a=1&" * 2000,
        "",
        "?",
        "://",
    ):
        assert len(shape_of(url)) < 300
    assert len(shape_of("https://a.test/?" + "&".join(f"{n}k=1" for n in range(2000)))) < 300


def test_the_number_of_a_shape_never_changes():
    assert number_of("a.test/books/#") == 3948667743
