"""The characters of a page, as browsers read them."""

from __future__ import annotations

import time

import pytest

from skitter.fetch import decode


def html(content_type: str = "text/html"):
    return (("content-type", content_type),)


@pytest.mark.parametrize(
    ("label", "name", "data", "text"),
    [
        ("utf-8", "utf-8", "é☃".encode(), "é☃"),
        ("UTF8", "utf-8", "é".encode(), "é"),
        ("unicode-1-1-utf-8", "utf-8", "é".encode(), "é"),
        ("iso-8859-1", "windows-1252", b"\x80 \x93\xe9\x94", "€ “é”"),
        ("latin1", "windows-1252", b"\xe9", "é"),
        ("us-ascii", "windows-1252", b"\x99", "™"),
        ("windows-1252", "windows-1252", b"\x81\x8d\x9d", "\x81\x8d\x9d"),
        ("iso-8859-9", "windows-1254", b"\xfd\xfe", "ış"),
        ("iso-8859-2", "iso-8859-2", b"\xb3", "ł"),
        ("iso-8859-15", "iso-8859-15", b"\xa4", "€"),
        ("windows-1251", "windows-1251", "Привет".encode("cp1251"), "Привет"),
        ("koi8-r", "koi8-r", "Привет".encode("koi8-r"), "Привет"),
        ("shift_jis", "shift_jis", "①日本".encode("cp932"), "①日本"),
        ("x-sjis", "shift_jis", "日本".encode("cp932"), "日本"),
        ("windows-31j", "shift_jis", "日本".encode("cp932"), "日本"),
        ("euc-jp", "euc-jp", "日本".encode("euc-jp"), "日本"),
        ("gb2312", "gbk", "€汉字㐀".encode("gb18030"), "€汉字㐀"),
        ("gbk", "gbk", "𠀀".encode("gb18030"), "𠀀"),
        ("gb18030", "gb18030", "汉字".encode("gb18030"), "汉字"),
        ("big5", "big5", "漢字".encode("big5"), "漢字"),
        ("euc-kr", "euc-kr", "똠방각하".encode("cp949"), "똠방각하"),
        ("ks_c_5601-1987", "euc-kr", "한글".encode("cp949"), "한글"),
        ("tis-620", "windows-874", b"\xa1\x85", "ก…"),
        ("utf-16", "utf-16le", "é".encode("utf-16le"), "é"),
    ],
)
def test_a_label_means_what_it_means_to_browsers(label, name, data, text):
    assert decode(data, html(f"text/html; charset={label}")) == (text, name)


@pytest.mark.parametrize(
    "content_type",
    [
        "text/html; charset=windows-1251",
        'text/html;charset="Windows-1251"',
        "text/html; x=y; CHARSET = windows-1251 ; z",
        "text/html; charset='windows-1251'",
    ],
)
def test_the_charset_of_a_content_type_is_found_in_any_dress(content_type):
    assert decode(b"\xcf", html(content_type)) == ("П", "windows-1251")


@pytest.mark.parametrize(
    "markup",
    [
        '<meta charset="windows-1251">',
        "<meta charset=windows-1251>",
        "<META CHARSET='windows-1251' />",
        "<meta\n charset = 'windows-1251'>",
        '<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">',
        '<meta content="text/html; charset=windows-1251" http-equiv=content-type>',
        '<!-- <meta charset="koi8-r"> --><meta charset="windows-1251">',
        '<meta name="a" content="charset=koi8-r"><meta charset="windows-1251">',
        '<meta charset="no-such-thing"><meta charset="windows-1251">',
        '<meta name="x > y" content=\'"\'><meta charset="windows-1251">',
        '<?xml version="1.0" encoding="windows-1251"?>',
    ],
)
def test_a_declaration_in_the_document_is_obeyed(markup):
    text, name = decode(markup.encode() + b"\xcf", html())
    assert (text[-1], name) == ("П", "windows-1251")


@pytest.mark.parametrize(
    ("body", "headers", "name"),
    [
        (b"\xef\xbb\xbf\xc3\xa9", html("text/html; charset=koi8-r"), "utf-8"),
        (b"\xff\xfe\xe9\x00", html("text/html; charset=utf-8"), "utf-16le"),
        (b"\xfe\xff\x00\xe9", (), "utf-16be"),
        (b'<meta charset="koi8-r">\xc3\xa9', html("text/html; charset=utf-8"), "utf-8"),
        (b'<meta charset="utf-8">\xc3\xa9', html("text/html; charset=bogus"), "utf-8"),
        (b'<meta charset="utf-16">\xc3\xa9', html(), "utf-8"),
        (b"\xc3\xa9", html(), "utf-8"),
        (b"caf\xe9", html(), "windows-1252"),
        (b" " * 1100 + b'<meta charset="iso-8859-2">\xe9', html(), "iso-8859-2"),
        (b" " * 1100 + b'<meta charset="koi8-r">\xc3\xa9', html(), "utf-8"),
    ],
)
def test_the_strongest_sign_wins(body, headers, name):
    text, found = decode(body, headers)
    assert found == name
    assert text[-1] == "é"


def test_a_byte_order_mark_is_not_part_of_the_text():
    assert decode(b"\xef\xbb\xbfhello") == ("hello", "utf-8")


def test_bytes_that_do_not_fit_the_declared_encoding_are_replaced():
    assert decode(b"a\xffb", html("text/html; charset=utf-8")) == ("a\ufffdb", "utf-8")


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("naïve café, déjà vu ☃".encode() * 2 + b"\xe2\x82", "utf-8"),  # cut in the middle
        ("naïve café, déjà vu".encode("cp1252") + b" \xc3\xa9", "windows-1252"),
        (b"\xe9", "windows-1252"),
    ],
)
def test_a_byte_that_does_not_fit_does_not_spoil_a_page(body, name):
    assert decode(body)[1] == name


def test_nothing_is_utf8():
    assert decode(b"") == ("", "utf-8")


@pytest.mark.parametrize(
    "body",
    [
        b"<meta " * 200,
        b"<meta charset=" + b" " * 1000,
        b"<!--" * 300,
        b"<meta a='" * 100,
        b"\xff<meta '" + b'<meta "' * 9_000,
        b"\xe9\x80" * 500_000,
    ],
)
def test_a_hostile_document_costs_no_time(body):
    before = time.process_time()
    decode(body, html("text/html; charset=" + " " * 60_000))
    assert time.process_time() - before < 0.5
