"""Everything Skitter raises on purpose.

    SkitterError
    ├── UsageError                 the caller's mistake; retrying does not help
    │   ├── BadURL                 not an absolute http(s) URL we can store
    │   ├── BadJobName             a name that cannot be part of a key
    │   ├── BadOption              a setting outside its range
    │   ├── TooBig                 a request or a result over its limit
    │   ├── SpiderError            a spider's file does not load; shows the user's own line
    │   ├── NotAllowed             a worker was asked for something it may not do
    │   ├── JobMissing             no job of that name on this server
    │   ├── RunMissing             no run of that id, or it was forgotten
    │   ├── JobExists              there already is a job of that name
    │   ├── JobMismatch            the job exists with another value of a fixed option
    │   └── ItemsElsewhere         the job's items go elsewhere
    ├── FrontierError              the frontier refused
    │   ├── LeaseLost              the lease is no longer ours
    │   ├── QueueFull              over max_pending; try again later
    │   ├── QuotaReached           the jobs of a tenant have all that their quota allows
    │   ├── JobClosed              the job is draining or cancelled and accepts nothing new
    │   └── JobRemoved             the job was removed while we worked on it
    ├── FetchError                 a page could not be fetched
    │   ├── ConnectFailed          no connection: the name does not resolve, TLS fails, ...
    │   │   ├── HostNotFound       there is no such name
    │   │   ├── NamesUnavailable   no name can be looked up for now
    │   │   └── ConnectRefused     nothing listens on that port
    │   ├── FetchTimeout           too slow to connect, to begin or to finish
    │   ├── ResponseTooLarge       over the size limit, after decompression
    │   ├── BadResponse            not HTTP, or cut off in the middle
    │   ├── ProxyFault             the proxy does not work; says nothing about the page
    │   ├── NoRoute                no proxy leaves from the requested country
    │   ├── AddressRefused         a private address that the operator did not allow
    │   ├── RenderFailed           the tab or its browser died
    │   └── NoPage                 the answer is not the page: 404, 500, a loop, robots.txt
    ├── ApiError                   Skitter's HTTP API reported a problem
    └── InfrastructureError        a server, a disk or a network does not work
        ├── ServerUnreachable      nothing answers there
        ├── ServerRefused          it answers, but rejects the credentials
        ├── ServerUnfit            too old, or it evicts keys
        ├── ServerFull             maxmemory reached; the call was refused
        ├── ServerStopped          the embedded server was stopped while we used it
        ├── DiskFull               the server cannot write to its disk
        ├── JobDamaged             a job's data on the server is unusable
        │   └── JobNewer           a newer release wrote it in a way that this one cannot read
        ├── ServerFailed           the embedded server did not start
        ├── DirectoryUnusable      the data directory cannot hold the server
        ├── NoRoomForFiles         downloaded files cannot be written
        ├── ClientMissing          the requested HTTP client is not installed
        ├── BrowserMissing         there is no browser, or no library to control it
        └── BrowserFailed          the browser does not start

Each message is one sentence on what is wrong and one on what to do next. `exit_code` is what the
command line returns, `retryable` says whether the same call may succeed later.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any, ClassVar, Final

from skitter.redact import redact, redact_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

#: The crawl has ended, but some URLs are held: docs/howto/traps.md.
HELD: Final = 4
#: Errors for a full disk, a full quota or a file at its size limit.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class SkitterError(Exception):
    """Anything this package raises on purpose."""

    exit_code: ClassVar[int] = 1
    retryable: ClassVar[bool] = False


class UsageError(SkitterError):
    """The caller's mistake."""

    exit_code = 2


class BadURL(UsageError):
    """Not an absolute http(s) URL that we can store."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"cannot use {shorten(redact(url))!r} as a URL: {reason}")
        self.url, self.reason = url, reason


class BadJobName(UsageError):
    """A name that cannot be part of a key."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{shorten(redact(name))!r} is not a job name: use 1 to 100 letters, digits, '.', '_' "
            "or '-', beginning with a letter or digit."
        )
        self.name = name


class BadOption(UsageError):
    """A setting outside its range."""

    def __init__(self, option: str, value: object, expected: str) -> None:
        super().__init__(f"{option} must be {expected}, got {shorten(repr(value))}.")
        self.option, self.value, self.expected = option, value, expected


class TooBig(UsageError):
    """A request or a result over its limit."""

    def __init__(self, what: str, *, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"{shorten(what)} is {size_bytes:,} bytes, the limit is {limit_bytes:,}: "
            "keep large data in a store of your own and pass its address."
        )
        self.size_bytes, self.limit_bytes = size_bytes, limit_bytes


class SpiderError(UsageError):
    """A spider's file does not load."""


class NotAllowed(UsageError):
    """A spider or output that is neither in the worker's configuration nor signed."""


class JobMissing(UsageError):
    """No job of that name on this server."""

    def __init__(self, job: str, known: list[str]) -> None:
        names = ", ".join(known[:10]) + (", ..." if len(known) > 10 else "")
        hint = f"jobs here: {names}." if known else "`run` and `push` create one."
        super().__init__(f"there is no job {job!r}: {hint}")
        self.job, self.known = job, known


class RunMissing(UsageError):
    """No run of that id, or it was forgotten."""

    def __init__(self, run: str) -> None:
        super().__init__(f"there is no run {shorten(run)!r}: `skitter runs` lists them.")
        self.run = run


class JobExists(UsageError):
    """There already is a job of that name."""

    def __init__(self, job: str) -> None:
        super().__init__(f"job {job!r} exists already: `skitter set {job}` changes it.")
        self.job = job


class JobMismatch(UsageError):
    """The job exists with another value of an option that cannot change."""

    def __init__(
        self, job: str, option: str, *, stored: object, asked: object, hint: str = ""
    ) -> None:
        super().__init__(
            f"job {job!r} was created with {option}={stored}, which cannot become {asked}: "
            f"{hint or f'leave {option} out'}, or purge the job first."
        )
        self.job, self.option = job, option


class ItemsElsewhere(UsageError):
    """The job's items go elsewhere."""

    def __init__(self, job: str, place: str, *, stored: int, can_export: bool = False) -> None:
        count = f", which has {stored:,} of them" if stored else ""
        copy = (
            f"`skitter export {job} --from {place} --to FILE`" if can_export else "copy that file"
        )
        super().__init__(
            f"the items of job {job!r} go to {place}{count}. Name that output, alone or beside "
            f"others, and for a copy {copy}; or start over with --fresh of `run` or `crawl`."
        )
        self.job, self.place, self.stored = job, place, stored


class OutputIncomplete(UsageError):
    """A further output cannot have what was stored before it was named."""

    def __init__(self, job: str, place: str, *, main: str) -> None:
        super().__init__(
            f"{place} cannot be filled with what {main} has of job {job!r}, as only a database can "
            "be read back. Leave it out, or start over with --fresh of `run` or `crawl`."
        )
        self.job, self.place = job, place


class OutputDropped(UsageError):
    """It is not an output of the job any more."""

    def __init__(self, job: str, place: str) -> None:
        super().__init__(
            f"{place} is no output of job {job!r}: a later run did not name it. The next `run` "
            "that does adds it again."
        )
        self.job, self.place = job, place


class FrontierError(SkitterError):
    """The frontier refused."""


class LeaseLost(FrontierError):
    """The lease expired or was reclaimed; somebody else has the URL, or had it."""

    def __init__(self, url: str) -> None:
        super().__init__(
            f"the lease of {shorten(redact(url))} is lost: it expired, or the page was finished "
            "already. Nothing was changed."
        )
        self.url = url


class QueueFull(FrontierError):
    """The queue is over max_pending.

    `added` of the offered URLs went in, none of the rest.
    """

    retryable = True

    def __init__(
        self, job: str, *, max_pending: int, added: int, tenant: str = "", command: str = ""
    ) -> None:
        super().__init__(job)
        self.job, self.max_pending, self.added = job, max_pending, added
        self.tenant, self.command = tenant, command  # if it is a quota, of which jobs

    def __str__(self) -> str:
        full = f"is full (max_pending is {self.max_pending:,})"
        more = ""
        if self.tenant:
            full = (
                f"gets no more: the jobs {self.tenant} have the {self.max_pending:,} waiting URLs "
                "that their quota allows together (max_pending)"
            )
            more = f" Who runs the server can raise it: `{self.command}`."
        return (
            f"job {self.job!r} {full}: {self.added:,} of these went in. Push again later, or wait "
            f"for room (wait=True, --wait).{more}"
        )


class QuotaReached(FrontierError):
    """The jobs of a tenant have all that their quota allows."""

    def __init__(self, job: str, tenant: str, quota: str, *, limit: int, command: str) -> None:
        self.job, self.tenant, self.quota, self.limit = job, tenant, quota, limit
        super().__init__(
            f"job {job!r} is not created: there are {limit:,} jobs {tenant}, as many as their "
            f"quota allows ({quota}). Purge one, or have it raised by who runs the server: "
            f"`{command}`."
        )


class JobClosed(FrontierError):
    """The job is draining or cancelled and accepts nothing new."""

    def __init__(self, job: str, state: str, *, hint: str = "") -> None:
        hint = hint or f"run `skitter resume {job}` first."
        super().__init__(f"job {job!r} is {state} and takes no new URLs: {hint}")
        self.job, self.state = job, state


class JobRemoved(FrontierError):
    """The job was removed while it was running."""

    def __init__(self, job: str) -> None:
        super().__init__(
            f"the crawl {job!r} was removed from the server while it ran (`skitter purge`, or "
            "FLUSHALL): run it again to start over."
        )
        self.job = job


#: Reasons that are also recognised where only their text is kept, as for robots.txt.
NOT_FOUND = "host not found: "
NAMES_AWAY = "the name server does not answer"


class FetchError(SkitterError):
    """A page could not be fetched."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"{shorten(redact(url))}: {redact_text(reason)}")
        self.url, self.reason = url, reason


class NotArchived(FetchError):
    """The page is not in the archive that is crawled instead of the web."""

    def __init__(self, url: str) -> None:
        super().__init__(url, "it is not in the archive")


class ConnectFailed(FetchError):
    """No connection: the name does not resolve, the port refuses, TLS fails."""

    retryable = True


class HostNotFound(ConnectFailed):
    """There is no such name, says the name server."""

    def __init__(self, url: str, name: str) -> None:
        super().__init__(url, f"{NOT_FOUND}{shorten(name)}")


class NamesUnavailable(ConnectFailed):
    """No name can be looked up for now: the page is not to blame, and waits."""

    def __init__(self, url: str) -> None:
        super().__init__(url, NAMES_AWAY)


class ConnectRefused(ConnectFailed):
    """The port refuses connections or HTTP/2 requests: it is closed, or overloaded."""


class FetchTimeout(FetchError):
    """Too slow to connect, to begin or to finish."""

    retryable = True


class ResponseTooLarge(FetchError):
    """Over the size limit, after decompression."""


class BadResponse(FetchError):
    """Not HTTP, or cut off in the middle."""

    retryable = True


class ProxyFault(FetchError):
    """The proxy does not work: no connection to it, bad credentials, no tunnel. The page may."""

    retryable = True


class NoRoute(FetchError):
    """No proxy leaves from the requested country."""


class AddressRefused(FetchError):
    """A private, loopback or link-local address that the operator did not allow."""


class RenderFailed(FetchError):
    """The tab or its browser died, or the page's scripts did."""

    retryable = True


class NoPage(FetchError):
    """The answer is not the page: an error status, a redirect that leads nowhere, a robots.txt that
    forbids it or cannot be read."""


class ApiError(SkitterError):
    """Skitter's HTTP API reported a problem."""

    def __init__(self, status: int, problem: Mapping[str, Any], *, retry_after_s: float) -> None:
        detail = problem.get("detail") or problem.get("title") or f"the server answered {status}"
        hint = problem.get("hint")
        super().__init__(f"{detail} {hint}" if hint else str(detail))
        self.status = status
        self.retry_after_s = retry_after_s  # 0: the server named no time
        self.type, self.field = str(problem.get("type", "")), str(problem.get("field", ""))


class InfrastructureError(SkitterError):
    """A server, a disk or a network does not work."""

    exit_code = 3


class ServerUnreachable(InfrastructureError):
    """The server does not answer."""

    retryable = True


class ServerRefused(InfrastructureError):
    """The server answers, but rejects the credentials."""


class ServerUnfit(InfrastructureError):
    """Too old, or it evicts keys."""


class ServerFull(InfrastructureError):
    """maxmemory is reached. The call was refused; of many URLs, `added` were accepted before it."""

    retryable = True

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self.where, self.added = where, 0

    def __str__(self) -> str:
        written = f"only {self.added:,} URLs went in" if self.added else "nothing was written"
        return (
            f"{self.where} has no memory left (maxmemory), so {written}: let workers drain the "
            "queue, load the items, or raise maxmemory."
        )


class ServerStopped(InfrastructureError):
    """The embedded server was stopped while in use."""

    def __init__(self, directory: Path) -> None:
        if directory.exists():
            what = "was stopped (`skitter down`): nothing is lost; run it again to continue."
        else:
            what = "is gone, and so is its folder: run it again to start over."
        super().__init__(f"the embedded server in {directory} {what}")


class DiskFull(InfrastructureError):
    """The server's disk is full. It accepts nothing until there is space."""

    retryable = True

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.directory = directory

    def __str__(self) -> str:
        return (
            f"the disk of {self.directory} is full ({free_space(self.directory)} free): free some "
            "space. What is running continues by itself, and nothing that was written is lost."
        )


class JobDamaged(InfrastructureError):
    """A job's data on the server is unusable."""

    def __init__(self, job: str, what: str) -> None:
        super().__init__(f"job {job!r} is damaged: {what}. Run `skitter audit {job}` for details.")
        self.job = job


class JobNewer(JobDamaged):
    """A job was written by a newer release of Skitter than this one."""

    def __init__(self, job: str, what: str) -> None:
        from skitter.extras import RELEASE  # rarely needed, and every command imports this module

        InfrastructureError.__init__(
            self,
            f"job {job!r} is not for this release of Skitter ({RELEASE}): {what}. Install the "
            "newer one here (docs/howto/upgrade.md); if there is none, the job is damaged: run "
            f"`skitter audit {job}`.",
        )
        self.job = job


class ServerFailed(InfrastructureError):
    """The embedded server did not start, or went away while starting."""


class DirectoryUnusable(InfrastructureError):
    """The data directory cannot hold the server."""


class NoRoomForFiles(InfrastructureError):
    """Downloaded files cannot be written: the disk is full, or the folder is not ours."""

    retryable = True

    def __init__(self, folder: Path | str, reason: str) -> None:
        option = "files.store" if isinstance(folder, str) else "files.folder"
        super().__init__(
            f"files cannot be written to {folder} ({reason}): make room, or name another folder "
            f"({option}). Downloads wait."
        )
        self.folder = folder


class ClientMissing(InfrastructureError):
    """The requested HTTP client is not installed, or cannot be imported."""

    def __init__(self, client: str, error: ImportError) -> None:
        from skitter.extras import install  # slow to import, and rarely needed

        other = "wreq" if client == "aiohttp" else "aiohttp"
        how = install(client) if client == "aiohttp" else f"pip install {client}"
        super().__init__(
            f"the HTTP client {client} cannot be imported ({error}): install it with "
            f"`{how}`, or use the other with -s fetch.client={other}."
        )
        self.client = client


class BrowserMissing(InfrastructureError):
    """There is no browser, or no library to control it."""


class BrowserFailed(InfrastructureError):
    """The browser does not start."""

    retryable = True


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question about the known name that is most similar; empty if none is."""
    from difflib import get_close_matches  # rarely needed, and every command imports this module

    known = list(known)
    table = name[: name.rfind(".") + 1]  # what both begin with says nothing
    ends = [one.removeprefix(table) for one in known if table and one.startswith(table)]
    inside = get_close_matches(name.removeprefix(table), ends, n=1, cutoff=0.5)
    close = [table + one for one in inside] or get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}?" if close else ""


def no_such_name(owner: object, name: str, elsewhere: Mapping[str, str]) -> AttributeError:
    """For `__getattr__`: what a name from another tool is called here."""
    kind = type(owner)
    hint = elsewhere.get(name, "")
    if not hint and not name.startswith("_"):
        hint = did_you_mean(name, (one for one in dir(kind) if not one.startswith("_")))
    return AttributeError(
        f"{kind.__name__} has no {name!r}" + (f": {hint}" if hint else "."), name=name, obj=owner
    )


def shorten(text: str, limit: int = 120) -> str:
    """Truncate a value for a message, so that a 100 KB URL does not fill the screen."""
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text):,} characters)"


def free_space(directory: Path) -> str:
    """How much space is left on a directory's disk, as text."""
    try:
        disk = os.statvfs(directory)  # as shutil does, which every command would import
    except OSError:  # the directory was deleted
        return "nothing"
    free = disk.f_bavail * disk.f_frsize
    return f"{free / 2**20:,.0f} MB" if free >= 2**20 else f"{free / 2**10:,.0f} KB"
