"""What is written is what was seen, without secrets, and other tools read it."""

from __future__ import annotations

import dataclasses
import gzip
import os
import shutil
import time
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from warcio.archiveiterator import ArchiveIterator

from skitter.archive.index import Archive, is_here, read_line, write_lines
from skitter.archive.record import Record, request_of
from skitter.archive.writer import ArchiveWriter
from skitter.errors import FetchError, UsageError
from skitter.model import Request, Response

SITE = "https://shop.example"


def record(path: str = "/", body: bytes = b"<h1>Shop</h1>", **request) -> Record:
    headers = (
        ("content-type", "text/html; charset=utf-8"),
        ("content-encoding", "gzip"),
        ("set-cookie", "id=secret"),
    )
    response = Response(url=f"{SITE}{path}", status=200, headers=headers, body=body)
    return Record(Request(url=f"{SITE}{path}", **request), response, time.time(), "shop", "1")


def keep(folder: Path, *records: Record, **options) -> list[str]:
    with closing(ArchiveWriter(folder, "shop", print, **options)) as writer:
        return writer.write(records)


def warcs(folder: Path) -> list[tuple[str, str | None]]:
    """Types and URLs of all records, their digests verified by another library."""
    found = []
    for path in sorted(folder.glob("*.warc.gz")):
        with path.open("rb") as file:
            for one in ArchiveIterator(file, check_digests="raise"):
                one.content_stream().read()
                found.append((one.rec_type, one.rec_headers.get_header("WARC-Target-URI")))
    return found


def test_a_kept_page_is_read_as_it_was_seen(tmp_path):
    pages = [record(f"/{n}", f"<h1>{n}</h1>".encode(), handler="book", depth=n) for n in range(9)]
    write_lines(tmp_path, keep(tmp_path, *pages))

    archive = Archive.open(tmp_path)

    assert len(archive) == 9
    kept = archive.newest(Request(url=f"{SITE}/7#top"))
    assert kept
    assert (kept.request, kept.job, kept.size) == ({"handler": "book", "depth": 7}, "shop", 10)
    response = archive.read(kept)
    assert (response.status, response.body, response.url) == (200, b"<h1>7</h1>", f"{SITE}/7")
    kind, packed = ("content-type", "text/html; charset=utf-8"), ("content-encoding", "gzip")
    assert response.headers == (kind, packed)
    responses = [("response", f"{SITE}/{n}") for n in range(9)]
    assert warcs(tmp_path) == [("warcinfo", None), *responses]


def test_a_screenshot_is_kept_with_its_page_and_read_with_it(tmp_path):
    pictured = [record("/a"), record("/b")]  # equal bodies
    for number, one in enumerate(pictured):
        one.response = msgspec.structs.replace(one.response, screenshot=b"\x89PNG%d" % number)
    write_lines(tmp_path, keep(tmp_path, *pictured, record("/c")))

    archive = Archive.open(tmp_path)
    found = {kept.url: archive.read(kept).screenshot for kept in archive}
    assert found == {f"{SITE}/a": b"\x89PNG0", f"{SITE}/b": b"\x89PNG1", f"{SITE}/c": None}
    assert ("resource", f"urn:fullPage:{SITE}/b") in warcs(tmp_path)
    for one in tmp_path.glob("*.jsonl"):
        one.unlink()
    assert len(Archive.open(tmp_path)) == 0, "without its index, it has no page"


def test_equal_bodies_are_stored_once(tmp_path):
    write_lines(tmp_path, keep(tmp_path, record("/a"), record("/b")))

    assert [kind for kind, _ in warcs(tmp_path)] == ["warcinfo", "response", "revisit"]
    archive = Archive.open(tmp_path)
    bodies = [archive.read(one).body for one in archive]
    assert bodies == [b"<h1>Shop</h1>"] * 2


def test_a_record_without_a_completion_is_not_in_the_archive(tmp_path):
    lines = keep(tmp_path, record("/done"), record("/orphan"))
    assert len(Archive.open(tmp_path)) == 0  # a worker that was killed before all of them
    write_lines(tmp_path, lines[:1])
    write_lines(tmp_path, lines[:1])  # it comes again when its worker was killed in between
    assert [one.url for one in Archive.open(tmp_path)] == [f"{SITE}/done"]
    index = next(tmp_path.glob("*.jsonl"))
    index.write_text(index.read_text() + lines[1][:40])  # the power went
    assert len(Archive.open(tmp_path)) == 1


@pytest.mark.parametrize(
    "body", [b"user=me&password=hunter2", b'{"login": {"api_key": "hunter2"}}']
)
def test_secrets_do_not_enter(tmp_path, body):
    url = "https://me:hunter2@shop.example/x"
    headers = (("set-cookie", "hunter2"), ("x-auth-token", "hunter2"), ("etag", "1"))
    response = Response(url=url, status=200, headers=headers, body=b"x")
    request = Request(
        url=url,
        method="POST",
        body=body,
        headers={"authorization": "Bearer hunter2", "cookie": "hunter2"},
        meta={"token": "hunter2", "page": 3},
    )
    write_lines(tmp_path, keep(tmp_path, Record(request, response, 1.0, "shop", "1")))

    for path in tmp_path.glob("*.warc.gz"):
        with path.open("rb") as file:
            for one in ArchiveIterator(file):
                assert "hunter2" not in f"{one.rec_headers}{one.http_headers}"
    assert all("hunter2" not in path.read_text() for path in tmp_path.glob("*.jsonl"))
    [kept] = Archive.open(tmp_path)
    assert kept.request["meta"] == {"token": "***", "page": 3}
    assert Archive.open(tmp_path).read(kept).headers == (("x-auth-token", "***"), ("etag", "1"))


def test_a_new_file_begins_when_one_is_full(tmp_path):
    write_lines(tmp_path, keep(tmp_path, record("/a"), record("/b"), max_file_bytes=1))
    assert len(list(tmp_path.glob("*.warc.gz"))) == 2
    assert len(Archive.open(tmp_path)) == 2


def test_a_folder_that_cannot_be_written_costs_no_page_and_is_said_once(tmp_path):
    folder, said = tmp_path / "kept", []
    writer = ArchiveWriter(folder, "shop", lambda *line: said.append(line), max_file_bytes=1)
    assert writer.write([record("/a")]) != [""]
    shutil.rmtree(folder)
    folder.write_text("in the way")
    assert [writer.write([record(f"/{n}")]) for n in range(3)] == [[""], [""], [""]]
    [(level, text)] = said
    assert level == "error"
    assert "cannot be written, pages are not kept" in text


def test_a_batch_that_needs_a_second_file_which_cannot_be_made_is_not_kept_at_all(tmp_path):
    folder, said = tmp_path / "kept", []
    writer = ArchiveWriter(folder, "shop", lambda *line: said.append(line))
    assert writer.write([record("/a")]) != [""]
    shutil.rmtree(folder)
    folder.write_text("in the way")
    assert writer.add([record("/b")]) != [""]  # still into the first file
    writer.max_file_bytes = 1
    assert writer.add([record("/c")]) == [""]
    assert not writer.sync()
    assert len(said) == 1


def test_a_break_in_a_header_makes_no_second_header(tmp_path):
    one = record("/a")
    headers = (("x-note", "é\r\nx-forged: 1"), *one.response.headers)
    one.response = msgspec.structs.replace(one.response, headers=headers)
    write_lines(tmp_path, keep(tmp_path, one))
    archive = Archive.open(tmp_path)
    found = dict(archive.read(next(iter(archive))).headers)
    assert found["x-note"] == "é x-forged: 1"
    assert "x-forged" not in found


def foreign(url: str, body: bytes, *, packs=gzip.compress, chunks=True) -> bytes:
    """A record as other tools write it: the bytes that came, packed and in chunks; or headers that
    say so, and the page as it is."""
    packed = packs(body)
    head = (
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n"
        "Transfer-Encoding: chunked\r\n\r\n"
    )
    sent = b"%x\r\n%b\r\n0\r\n\r\n" % (len(packed), packed) if chunks else packed
    block = head.encode() + sent
    fields = (
        f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: {url}\r\n"
        "WARC-Date: 2026-01-02T03:04:05Z\r\nWARC-Record-ID: <urn:uuid:1>\r\n"
        f"Content-Type: application/http; msgtype=response\r\nContent-Length: {len(block)}\r\n\r\n"
    )
    return fields.encode() + block + b"\r\n\r\n"


@pytest.mark.parametrize("name", ["theirs.warc", "theirs.warc.gz"])
def test_files_of_other_tools_are_read_too(tmp_path, name):
    records = [foreign(f"{SITE}/{n}", f"<h1>{n}</h1>".encode()) for n in range(3)]
    packed = map(gzip.compress, records) if name.endswith(".gz") else records
    (tmp_path / name).write_bytes(b"".join(packed))

    archive = Archive.open(tmp_path)

    kept = archive.newest(Request(url=f"{SITE}/1"))
    assert kept
    assert archive.read(kept).body == b"<h1>1</h1>"
    assert len(archive) == 3


def test_wget_writes_urls_in_angle_brackets(tmp_path):
    (tmp_path / "wget.warc").write_bytes(foreign(f"<{SITE}/1>", b"<h1>1</h1>"))
    archive = Archive.open(tmp_path)
    [kept] = archive.find(f"{SITE}/1")
    assert archive.read(kept).url == f"{SITE}/1"


@pytest.mark.parametrize("packs", [bytes, gzip.compress])
@pytest.mark.parametrize("chunks", [True, False])
def test_bodies_are_read_that_are_not_packed_as_their_headers_say(tmp_path, packs, chunks):
    body = "<h1>Bücher</h1>".encode()
    (tmp_path / "a.warc").write_bytes(foreign(f"{SITE}/", body, packs=packs, chunks=chunks))
    archive = Archive.open(tmp_path)
    [kept] = archive
    assert archive.read(kept).body == body


@pytest.mark.parametrize(
    ("packs", "whole", "damaged"),
    [(gzip.compress, b"\x1f\x8b", b"\x1f\x00"), (bytes, b"\r\n0\r\n", b"\r\nz\r\n")],
)
def test_what_cannot_be_unpacked_is_no_page(tmp_path, packs, whole, damaged):
    record = foreign(f"{SITE}/", b"<h1>B</h1>", packs=packs)
    (tmp_path / "a.warc").write_bytes(record.replace(whole, damaged))
    archive = Archive.open(tmp_path)
    [kept] = archive
    with pytest.raises(FetchError, match="cannot be read"):
        archive.read(kept)


def revisit(url: str, *, day: int, head: str = "", digest: str = "") -> bytes:
    """A record as other tools write it of a page whose body they have."""
    block = f"{head}\r\n\r\n" if head else ""
    named = f"WARC-Payload-Digest: {digest}\r\n" if digest else ""
    fields = (
        f"WARC/1.0\r\nWARC-Type: revisit\r\nWARC-Target-URI: {url}\r\n{named}"
        f"WARC-Date: 2026-01-{day:02}T03:04:05Z\r\nWARC-Record-ID: <urn:uuid:{day}>\r\n"
        "Content-Type: application/http; msgtype=response\r\n"
        f"Content-Length: {len(block)}\r\n\r\n"
    )
    return (fields + block + "\r\n\r\n").encode()


def test_revisits_of_other_tools_are_the_pages_that_they_stand_for(tmp_path):
    first = foreign(f"{SITE}/1", b"<h1>1</h1>").replace(
        b"Content-Type: app", b"WARC-Payload-Digest: sha1:ONE\r\nContent-Type: app", 1
    )
    later = first.replace(b"2026-01-02", b"2026-01-09").replace(b"ONE", b"TWO")
    found = [
        revisit(f"{SITE}/same", day=3, head="HTTP/1.1 200 OK\r\nX-Own: 1", digest="sha1:ONE"),
        revisit(f"{SITE}/bare", day=3, digest="sha1:ONE"),
        revisit(f"{SITE}/1", day=4, head="HTTP/1.1 304 Not Modified"),
        revisit(f"{SITE}/lost", day=5, head="HTTP/1.1 304 Not Modified", digest="sha1:SIX"),
    ]
    # The body may come after what refers to it.
    (tmp_path / "a.warc.gz").write_bytes(b"".join(map(gzip.compress, found)))
    (tmp_path / "b.warc.gz").write_bytes(gzip.compress(first) + gzip.compress(later))

    archive = Archive.open(tmp_path)

    assert [text.endswith("(its body is not here)") for text in archive.unreadable] == [True]
    pages = {one.url[len(SITE) :]: archive.read(one) for one in archive}
    assert pages.keys() == {"/1", "/same", "/bare"}
    assert {(page.status, page.body) for page in pages.values()} == {(200, b"<h1>1</h1>")}
    assert pages["/same"].header("x-own") == "1"
    visits = archive.find(f"{SITE}/1")
    assert len(visits) == 3
    assert visits[1].head_at == (visits[0].file, visits[0].offset)


def test_a_line_that_names_a_file_elsewhere_is_refused(tmp_path):
    line = '{"url":"https://a.example/","at":1,"file":"../x","offset":0,"digest":"","status":200}'
    with pytest.raises(UsageError, match="is not a file name"):
        write_lines(tmp_path, [line])


def test_an_archive_that_is_not_there_is_said(tmp_path):
    with pytest.raises(UsageError, match="`skitter run --archive` makes one"):
        Archive.open(tmp_path / "nowhere")


def posted(path: str, sent: bytes) -> Record:
    """A page that shows what was sent."""
    page = record(path, b"<p>%b</p>" % sent[-6:])
    page.request = Request(url=f"{SITE}{path}", method="POST", body=sent)
    page.fingerprint = sent.hex()
    return page


def test_a_request_that_is_not_plain_is_read_back(tmp_path):
    """Bodies are bytes, which lines have as text."""
    forms = [posted("/search", b"page=%d\xff" % n) for n in range(3)]
    logins = [posted("/items", b"token=hunter2&page=%d" % n) for n in range(3)]
    write_lines(tmp_path, keep(tmp_path, *forms, *logins))

    archive = Archive.open(tmp_path)

    assert not archive.unreadable
    assert len(archive.find(f"{SITE}/search")) == 3, "as `archive show` looks for it"
    assert len(archive) == 6, "bodies that are left out do not make different requests the same"
    for form in forms:
        kept = archive.newest(form.request)
        assert kept
        assert (archive.read(kept).body, request_of(kept)) == (form.response.body, form.request)
    found = [request_of(kept) for kept in archive.of("shop") if kept.url.endswith("/items")]
    bodies = {archive.read(kept).body for one in found if (kept := archive.newest(one))}
    assert bodies == {one.response.body for one in logins}


def test_headers_are_read_as_the_handler_saw_them(tmp_path):
    headers = (("x-name", "café 日本"), ("content-length", "9"), ("x-none", ""))
    joined = ("link", "<a>; rel=next\r\n\r\n<b>; rel=prev")  # by a browser
    odd = ("x-odd", "\ud800")
    page = record("/")
    page.response = Response(url=f"{SITE}/", status=200, headers=(*headers, joined, odd), body=b"x")
    write_lines(tmp_path, keep(tmp_path, page))

    archive = Archive.open(tmp_path)
    response = archive.read(next(iter(archive)))

    in_line = (("link", "<a>; rel=next <b>; rel=prev"), ("x-odd", "?"))
    assert response.headers == (*headers, *in_line)
    assert (response.body, len(warcs(tmp_path))) == (b"x", 2)


def test_a_page_that_no_line_can_hold_costs_only_its_copy(tmp_path):
    said = []
    writer = ArchiveWriter(tmp_path, "shop", lambda *line: said.append(line))
    lines = writer.write([record("/a"), record("/b", meta={"x": "\ud800"}), record("/c", b"c")])
    writer.close()
    assert [bool(line) for line in lines] == [True, False, True]
    [(_, text)] = said
    assert "/b: the page is not kept" in text
    write_lines(tmp_path, filter(None, lines))
    archive = Archive.open(tmp_path)
    assert [archive.read(kept).body for kept in archive] == [b"<h1>Shop</h1>", b"c"]


def test_half_a_line_costs_no_other(tmp_path):
    """A worker was killed in the middle of it, or the disk was full; its successor goes on."""
    lines = keep(tmp_path, *(record(f"/{n}", b"%d" % n) for n in range(4)))
    write_lines(tmp_path, lines[:1])
    index = next(tmp_path.glob("*.jsonl"))
    index.write_text(index.read_text() + lines[1][:40])
    write_lines(tmp_path, lines[1:3])
    write_lines(tmp_path, lines[3:])

    archive = Archive.open(tmp_path)

    assert len(archive) == 4
    assert archive.unreadable == [f"{index.name}, line 2"]


def test_another_job_in_the_folder_hides_no_page(tmp_path):
    first, second, third = (record("/", b"%d" % n) for n in range(3))
    second.job, third.job = "other", "third"
    write_lines(tmp_path, keep(tmp_path, first, second, third))
    archive = Archive.open(tmp_path)
    [kept] = archive.of("shop")
    assert archive.read(kept).body == b"0"
    for job, body in {"shop": b"0", "other": b"1", "new": b"2"}.items():
        newest = archive.newest(Request(url=SITE), job=job)
        assert newest
        assert archive.read(newest).body == body
    pages = keep(tmp_path, record("/theirs"))
    write_lines(tmp_path, [line.replace('"job":"shop"', '"job":"other"') for line in pages])
    archive = Archive.open(tmp_path)
    assert [len(archive.within(job)) for job in ("shop", "other", "new")] == [1, 2, 2]


LINE = '{"url":"https://a.example/","at":1,"file":"x.warc.gz","offset":0,"digest":"","status":200}'


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"offset":0', '"offset":-1'),
        ('"offset":0', '"offset":99999999999999999999999'),
        ('"at":1', '"at":1e300'),
        ('"at":1', '"at":1,"request":{"depth":"x"}'),
        ("{", "junk"),
    ],
)
def test_a_line_that_says_nonsense_is_left_out_and_said(tmp_path, old, new):
    (tmp_path / "x.warc.gz").write_bytes(gzip.compress(foreign(f"{SITE}/1", b"x")))
    (tmp_path / "x.warc.gz.jsonl").write_text(f"{LINE.replace(old, new)}\n{LINE}\n")
    archive = Archive.open(tmp_path)
    assert len(archive) == 1
    assert archive.unreadable == ["x.warc.gz.jsonl, line 1"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"offset":0', '"offset":5'),
        ('"offset":0', '"offset":4611686018427387903'),
        ("x.warc.gz", ".."),
        ("x.warc.gz", "../x.warc.gz"),
        ("x.warc.gz", "x\\u0000"),
        ("x.warc.gz", "missing"),
        ('"at":1', '"at":1,"body_at":["/etc/passwd",0]'),
        ('"at":1', '"at":1,"fingerprint":"1"'),  # another body
    ],
)
def test_a_record_that_is_not_what_its_line_says_is_an_error_of_that_page(tmp_path, old, new):
    (tmp_path / "x.warc.gz").write_bytes(gzip.compress(foreign(f"{SITE}/1", b"x")))
    (tmp_path / "x.warc.gz.jsonl").write_text(f"{LINE.replace(old, new)}\n")
    archive = Archive.open(tmp_path)
    with pytest.raises(FetchError, match="cannot be read"):
        archive.read(next(iter(archive)))
    assert not is_here(tmp_path, LINE.replace("x.warc.gz", "../x"))
    assert not is_here(tmp_path, "junk")


def test_damaged_files_are_left_out_and_a_body_has_a_limit(tmp_path):
    bomb = foreign(f"{SITE}/bomb", bytes(10**7))
    no_http = foreign(f"{SITE}/odd", b"x").replace(b"HTTP/1.1 200 OK", b"\xff\xfe")
    (tmp_path / "a.warc.gz").write_bytes(b"\x1f\x8b" + b"junk" * 99)
    (tmp_path / "b.warc").write_bytes(b"junk" * 99)
    (tmp_path / "c.warc.gz").write_bytes(b"")
    (tmp_path / "d.warc.gz").write_bytes(gzip.compress(bomb) + gzip.compress(no_http))
    archive = Archive.open(tmp_path)
    assert [text.split()[0] for text in archive.unreadable] == ["a.warc.gz", "b.warc"]
    big, odd = archive
    with pytest.raises(FetchError, match="its body is over 1,000,000 bytes"):
        archive.read(big, limit=10**6)
    with pytest.raises(FetchError, match="not an HTTP response"):
        archive.read(odd)
    assert len(archive.read(big).body) == 10**7


def test_old_responses_are_pruned_but_the_last_of_each_page_and_bodies_that_others_need(tmp_path):
    def keep_at(at: float, *pages: Record) -> Path:
        lines = keep(tmp_path, *(dataclasses.replace(one, at=at) for one in pages))
        write_lines(tmp_path, lines)
        path: Path = tmp_path / read_line(lines[0]).file
        os.utime(path, (at, at))
        return path

    both = keep_at(100, record("/a", b"old"), record("/b", b"kept"))
    gone = keep_at(200, record("/a", b"older"))
    only_body = keep(tmp_path, record("/c", b"same"), record("/d", b"same"))
    write_lines(
        tmp_path,
        [
            msgspec.json.encode(msgspec.structs.replace(read_line(line), at=300.0)).decode()
            for line in only_body
        ],
    )
    body = tmp_path / read_line(only_body[0]).file
    os.utime(body, (300, 300))
    keep_at(900, record("/a", b"new"), record("/c", b"new c"))

    did = Archive.open(tmp_path).prune(before=500, keep_last=1)

    assert (did.responses, did.files, gone.exists()) == (3, 1, False)
    assert both.exists()
    assert body.exists(), "/d has its body there"
    archive = Archive.open(tmp_path)
    bodies = {one.url[-2:]: archive.read(one).body for one in archive}
    assert bodies == {"/a": b"new", "/b": b"kept", "/c": b"new c", "/d": b"same"}
    assert len(archive.find(f"{SITE}/a")) == 1
    assert archive.prune(before=500, keep_last=1).responses == 0
    index = gone.with_name(f"{gone.name}.jsonl")
    assert not index.exists()
    left = keep(tmp_path, record("/z"))  # a prune was killed between the index and the file
    orphan = tmp_path / read_line(left[0]).file
    os.utime(orphan, (1, 1))
    assert Archive.open(tmp_path).prune(before=500, keep_last=1).files == 1
    assert warcs(tmp_path)


def test_each_job_keeps_its_last_response_and_nobody_prunes_what_a_worker_still_writes_to(tmp_path):
    theirs = dataclasses.replace(record("/a", b"theirs"), job="other", at=100)
    write_lines(tmp_path, keep(tmp_path, theirs))
    with closing(ArchiveWriter(tmp_path, "shop", print)) as idle:
        ours = idle.write([dataclasses.replace(record("/a", b"ours"), at=at) for at in (200, 300)])
        write_lines(tmp_path, ours)
        write_lines(tmp_path, keep(tmp_path, dataclasses.replace(record("/a", b"new"), at=400)))
        for path in tmp_path.glob("*.warc.gz"):
            os.utime(path, (500, 500))  # it has been idle for longer than it keeps pages

        assert Archive.open(tmp_path).prune(before=600, keep_last=1).responses == 0
        write_lines(tmp_path, idle.write([record("/b", b"later")]))

    did = Archive.open(tmp_path).prune(before=time.time() + 9, keep_last=1)
    archive = Archive.open(tmp_path)
    assert (did.responses, did.files) == (2, 0), "the file of /b had older responses of /a"
    assert [archive.read(one).body for one in archive.of("other")] == [b"theirs"]
    found = {one.url[-2:]: archive.read(one).body for one in archive.of("shop")}
    assert found == {"/a": b"new", "/b": b"later"}


def test_a_file_needs_no_other_which_may_be_pruned(tmp_path):
    lines = keep(tmp_path, *(record(f"/{n}") for n in range(3)), max_file_bytes=1)
    assert all(kept.body_at is None for kept in map(read_line, lines))
