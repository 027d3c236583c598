"""A packed archive is a WACZ whose index leads other tools to each page."""

from __future__ import annotations

import gzip
import zipfile
from hashlib import sha256
from io import BytesIO

import msgspec
import pytest
from warcio.archiveiterator import ArchiveIterator

from archive.test_writer import SITE, keep, posted, record
from skitter.archive.index import Archive, write_lines
from skitter.archive.package import LINES, pack, surt


def read_index(package: zipfile.ZipFile) -> list[tuple[str, dict[str, str]]]:
    """Its lines, found by the second index as readers do it."""
    meta, *members = package.read("indexes/index.idx").decode().splitlines()
    assert meta == '!meta 0 {"format":"cdxj-gzip-1.0","filename":"index.cdx.gz"}'
    packed, lines = package.read("indexes/index.cdx.gz"), list[str]()
    for member in members:
        place = msgspec.json.decode(member[member.index("{") :])
        some = packed[place["offset"] : place["offset"] + place["length"]]
        lines += gzip.decompress(some).decode().splitlines()
    assert lines == sorted(lines)
    return [(line.split(" ")[0], msgspec.json.decode(line.split(" ", 2)[2])) for line in lines]


def test_each_page_is_found_by_the_index_of_the_package(tmp_path):
    folder, to = tmp_path / "kept", tmp_path / "kept.wacz"
    pages = [record(f"/{n}", b"<h1>%d</h1>" % n) for n in range(LINES + 9)]
    lines = keep(folder, *pages, record("/same", b"<h1>7</h1>"), posted("/form", b"q=1"))
    write_lines(folder, lines[1:])  # the first was not completed
    theirs = record("/theirs")
    theirs.job = "other"
    write_lines(folder, keep(folder, theirs))
    [ours] = [path for path in folder.glob("*.warc.gz") if path.stat().st_size > 10_000]
    ours.write_bytes(ours.read_bytes() + gzip.compress(b"WARC/1.1\r\n" * 99)[:20])  # it was killed

    did = pack(Archive.open(folder), to, job="shop")

    assert did == (LINES + 10, LINES + 10, 1)
    with zipfile.ZipFile(to) as package:
        names = {info.filename: info.compress_type for info in package.infolist()}
        assert set(names.values()) == {zipfile.ZIP_STORED}
        about = msgspec.json.decode(package.read("datapackage.json"))
        for one in about["resources"]:
            body = package.read(one["path"])
            assert (one["hash"], one["bytes"]) == (f"sha256:{sha256(body).hexdigest()}", len(body))
        assert names.keys() - {one["path"] for one in about["resources"]} == {
            "datapackage.json", "datapackage-digest.json",
        }  # fmt: skip
        warc = package.read(f"archive/{ours.name}")
        found = read_index(package)
        package.extractall(tmp_path / "unpacked")
    unpacked = Archive.open(tmp_path / "unpacked" / "archive")
    assert len(unpacked) == LINES + 10
    assert all(unpacked.read(one).status == 200 for one in unpacked)
    assert len(found) == LINES + 9, "a form is found by no link"
    for _, one in found:
        start, size = int(one["offset"]), int(one["length"])
        [warc_record] = ArchiveIterator(BytesIO(warc[start : start + size]), check_digests="raise")
        headers = warc_record.rec_headers
        assert headers.get_header("WARC-Target-URI") == one["url"]
        assert headers.get_header("WARC-Payload-Digest") == one["digest"]
        is_same = one["url"].endswith("/same")
        assert one["mime"] == ("warc/revisit" if is_same else "text/html")
    keys = {key for key, _ in found}
    assert {"example,shop)/7", "example,shop)/same"} <= keys
    assert "example,shop)/0" not in keys


def test_a_package_that_cannot_be_written_leaves_the_one_before(tmp_path):
    folder, to = tmp_path / "kept", tmp_path / "kept.wacz"
    write_lines(folder, keep(folder, record("/a")))
    archive = Archive.open(folder)
    to.write_bytes(b"before")
    for path in folder.glob("*.warc.gz"):
        path.unlink()
    with pytest.raises(FileNotFoundError):
        pack(archive, to)
    assert (to.read_bytes(), sorted(path.name for path in tmp_path.iterdir())) == (
        b"before", ["kept", "kept.wacz"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("url", "key"),
    [
        (f"{SITE}/x/", "example,shop)/x"),
        ("http://www2.a.com/X?B=1&A=2&a=1", "com,a)/x?a=1&a=2&b=1"),
        ("https://a.com:443", "com,a)/"),
        ("http://a.com:8080//x//y?", "com,a:8080)/x/y"),
        ("http://a.com/%7Efoo/%e4%b8", "com,a)/~foo/%e4%b8"),
        ("http://127.0.0.1:8931/Py/x.html", "1,0,0,127:8931)/py/x.html"),
        ("https://xn--bcher-kva.example/ü", "example,xn--bcher-kva)/%c3%bc"),
        ("junk", ""),
    ],
)
def test_keys_are_those_of_the_library_surt(url, key):
    assert surt(url) == key
