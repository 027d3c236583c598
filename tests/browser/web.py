"""Pages that only a browser can read, and some that attack it."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qs

from fetch.site import Exchange, Page, drip, raw, redirect, reply

HTML = "content-type: text/html; charset=utf-8"

LATE = """<title>Late</title><div id=box></div><script>
setTimeout(() => { box.innerHTML = '<b class=price>12</b>' }, 50)
</script>"""

#: Ten more each time that the end comes in sight, fifty in all.
SCROLL = """<ul id=list></ul><p id=end>...</p><script>
let count = 0
const sight = new IntersectionObserver(seen => seen[0].isIntersecting && more())
const more = () => {
  if (count >= 50) { end.className = 'over'; return }
  sight.unobserve(end)
  for (let i = 0; i < 10; i++) list.append(Object.assign(document.createElement('li'),
    {textContent: ++count, style: 'height: 200px'}))
  sight.observe(end)
}
sight.observe(end)
</script>"""
SCROLL_DOWN = """async () => {
  while (!document.querySelector('.over')) {
    window.scrollTo(0, document.body.scrollHeight)
    await new Promise(done => setTimeout(done, 20))
  }
}"""

LOG_IN = """<form method=post action=/login><input name=user><input name=password type=password>
<button>go</button></form>"""
FILL_IN = """() => {
  document.querySelector('[name=user]').value = 'ann'
  document.querySelector('[name=password]').value = 'secret'
  document.querySelector('form').submit()
}"""

#: Asks for something all the time, and a picture never comes.
RESTLESS = """<p class=there>here</p><img src=/never><script>
setInterval(() => fetch('/tick'), 30)
</script>"""
STUCK = "<p>stuck<script>while (true) {}</script>"
MOVES = "<script>history.replaceState(null, '', '/moved?a=1#b')</script><p class=there>moved"
ELSEWHERE = "<meta http-equiv=refresh content='0;url=/late'>"
PICTURES = """<img src=/picture.png><style>@font-face {font-family: x; src: url(/font)}
p {font-family: x}</style><p class=there>text</p><script src=/script.js></script>"""


def html(text: str, *headers: str, status: int = 200) -> bytes:
    return reply(text.encode(), HTML, *headers, status=status)


async def _log_in(exchange: Exchange) -> None:
    length = int(exchange.head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    form = parse_qs((await exchange.reader.readexactly(length)).decode())
    right = form == {"user": ["ann"], "password": ["secret"]}
    cookie = ("set-cookie: who=ann; HttpOnly",) if right else ()
    await exchange.send(raw("location: /account", "content-length: 0", *cookie, status=303))


async def _account(exchange: Exchange) -> None:
    known = b"who=ann" in exchange.head
    await exchange.send(html(f"<p class=there>{'hello ann' if known else 'who are you?'}</p>"))


async def _echo(exchange: Exchange) -> None:
    body = b""
    if b"content-length: " in exchange.head.lower():
        length = int(exchange.head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        body = await exchange.reader.readexactly(length)
    await exchange.send(html(f"<pre class=there>{exchange.head.decode()}{body.decode()}</pre>"))


async def _never(exchange: Exchange) -> None:
    await exchange.until_hung_up()
    raise ConnectionResetError


def pages() -> Mapping[str, bytes | Page]:
    return {
        "/late": html(LATE),
        "/scroll": html(SCROLL),
        "/login": _log_in_or_form,
        "/account": _account,
        "/restless": html(RESTLESS),
        "/never": _never,
        "/tick": reply(b"tick"),
        "/stuck": html(STUCK),
        "/moves": html(MOVES),
        "/refresh": html(ELSEWHERE),
        "/hop": redirect("/late"),
        "/gone": html("<p class=there>not here", status=404),
        "/data": reply(b'{"a": 1}', "content-type: application/json"),
        "/file": reply(b"zip", "content-type: application/zip", "content-disposition: attachment"),
        "/pictures": html(PICTURES),
        "/echo": _echo,
        "/drip": drip(raw(HTML), b"<p>more"),
        "/big": html("<p>" + "x" * 2_000_000),
    }


async def _log_in_or_form(exchange: Exchange) -> None:
    if exchange.head.startswith(b"POST"):
        await _log_in(exchange)
    else:
        await exchange.send(html(LOG_IN))
