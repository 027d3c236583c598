"""Whether Skitter's directory is ours. Who can write to it decides where the server listens, what
it runs at its start, and who may log in: a `.skitter` from an archive or a repository is not ours.

A directory that we made holds a mark, signed with a key that is kept in the user's state directory.
The mark is good for its place, and for its inode when it was moved: one restored from a backup or
renamed is still ours, a copy elsewhere is not (ADR 55).
"""

from __future__ import annotations

import errno
import os
import shlex
import stat
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from skitter.errors import DirectoryUnusable

if TYPE_CHECKING:
    from collections.abc import Iterator

GROUP_OR_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
GROUP_OR_OTHERS = stat.S_IRWXG | stat.S_IRWXO
VARIABLE = "SKITTER_DIR"
KEY = "directories.key"
MARK = "made-here"
#: Marks that are kept for other homes of this user: a container's beside the machine's.
MAX_MARKS = 16
#: No file that we read whole is longer. Others may be endless.
MAX_CHARS = 65_536
#: What is obeyed, by how its name begins: files of the server, which also takes over an
#: appendonly.aof of Redis 6, and ours. Not logs, of which nobody reads older lines.
OBEYED = (
    *("appendonly", "dump", "temp-", "valkey", "start.", "users.", "server.", "keep", "stopped"),
    *("http-", "secret", "stores"),
)


def check_ours(directory: Path) -> None:
    """Refuse a directory that others own, can write to or have filled, and links in it. Raises
    OSError."""
    check_owner(directory)
    for entry in _entries(directory):
        _check_entry(entry)
    check_known(directory)


def check_owner(directory: Path) -> None:
    for found in (directory.lstat(), directory.stat()):  # our own link may point there
        if found.st_uid != os.geteuid():
            raise _not_ours(directory, found.st_uid)
    if found.st_mode & GROUP_OR_OTHERS_WRITE:
        raise DirectoryUnusable(
            f"other users can write to {directory} (mode {stat.S_IMODE(found.st_mode):o}), and so "
            f"control the server: if you trust its contents, run `chmod go-w {directory}`; if not, "
            "remove it or choose another with --dir."
        )


def _entries(directory: Path) -> list[os.DirEntry[str]]:
    """Also those of the append-only file, whose commands the server runs at its start."""
    with os.scandir(directory) as found:
        entries = list(found)
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(data_of(directory)) as found:
        entries += found
    return entries


def data_of(directory: Path) -> Path:
    return directory / "appendonlydir"


def _check_entry(entry: os.DirEntry[str]) -> None:
    if entry.is_symlink():
        raise DirectoryUnusable(
            f"{entry.path} is a link, which Skitter never creates: "
            "remove it, or choose another directory with --dir."
        )
    with suppress(FileNotFoundError):  # a draft that was renamed meanwhile
        if (owner := entry.stat(follow_symlinks=False).st_uid) != os.geteuid():
            raise _not_ours(Path(entry.path), owner)


def _not_ours(path: Path, owner: int) -> DirectoryUnusable:
    return DirectoryUnusable(
        f"{path} belongs to another user (uid {owner}): run as that user, or choose a directory "
        f"of your own with --dir or {VARIABLE}."
    )


# --- marks ----------------------------------------------------------------------------------------


def check_known(directory: Path) -> None:
    """Refuse a directory that holds what we obey, and that nobody here has made or trusted."""
    if not is_known(directory):
        command = f"skitter trust {shlex.quote(str(directory.absolute()))}"
        raise DirectoryUnusable(
            f"{directory} was not made by your Skitter on this machine, and what is in it would be "
            f"obeyed: if it is yours (from an earlier release, or a copy), run `{command}`, or set "
            f"{VARIABLE}={shlex.quote(str(directory.absolute()))} where no home lasts, as in "
            "containers; if not, remove it or choose another with --dir."
        )


def is_known(directory: Path) -> bool:
    # In this order: whoever makes a directory marks it before anything else is put there.
    filled = _is_filled(directory)
    return not filled or _is_named(directory) or (_is_marked(directory) and _is_closed(directory))


def _is_filled(directory: Path) -> bool:
    try:
        return any(_is_obeyed(path.name) for path in directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return False


def _is_obeyed(name: str) -> bool:
    """Also as disks of macOS read it: they ignore case, and some letters that nobody sees."""
    if not name.isascii():
        from unicodedata import normalize  # 3 ms, and rarely needed

        name = normalize("NFKD", name.casefold()).encode("ascii", "ignore").decode()
    return name.casefold().startswith(OBEYED)


def _is_named(directory: Path) -> bool:
    """The environment is the operator's word. A relative path is not: it is valid anywhere."""
    named = Path(os.environ.get(VARIABLE, ""))
    return named.is_absolute() and named == directory.absolute()


def _is_marked(directory: Path) -> bool:
    found = set(_found_marks(directory))
    return any(found & set(_marks(directory, key)) for key in _keys())


def _found_marks(directory: Path) -> list[str]:
    with suppress(OSError, DirectoryUnusable):
        return read_private(directory / MARK).split()
    return []


def _is_closed(directory: Path) -> bool:
    """Whether only we can read the append-only file, in today's place or that of Redis 6. One that
    came with `git pull`, which overwrites ignored files, is readable by others."""
    data = (entry for entry in _entries(directory) if entry.name.startswith("appendonly."))
    return not any(map(_is_open_to_others, data))


def _is_open_to_others(entry: os.DirEntry[str]) -> bool:
    with suppress(FileNotFoundError):  # the server has replaced it meanwhile
        return bool(entry.stat(follow_symlinks=False).st_mode & GROUP_OR_OTHERS)
    return False


def _marks(directory: Path, key: bytes) -> list[str]:
    """For the directory's place and for its inode. Not for its device: that is another one after
    a reboot or in another container."""
    place = os.fsencode(directory.resolve())
    facts = (b"place %b" % place, b"inode %d" % directory.stat().st_ino)
    return [blake2b(fact, key=key, digest_size=32).hexdigest() for fact in facts]


def make_ours(directory: Path) -> None:
    """Create it if needed, and mark it. Refuse one that somebody else has filled."""
    check_known(directory)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    _mark(directory)


def trust(directory: Path) -> None:
    """Take over a directory whose contents the user vouches for, and close it for others."""
    if not _is_filled(directory):
        raise DirectoryUnusable(
            f"there is nothing in {directory} that Skitter would obey, so it needs no trust: name "
            f"Skitter's own directory, such as {directory / '.skitter'}."
        )
    entries = _entries(directory)
    for entry in entries:
        _check_entry(entry)
    for place in (directory, *(Path(entry.path) for entry in entries if _is_obeyed(entry.name))):
        place.chmod(stat.S_IMODE(place.stat().st_mode) & ~GROUP_OR_OTHERS)
    check_owner(directory)
    _mark(directory)


def _mark(directory: Path) -> None:
    key = _key()
    if key is None:
        if _is_named(directory):
            return
        named = shlex.quote(str(directory.absolute()))
        raise DirectoryUnusable(
            f"there is no place to remember that {directory} is yours: set XDG_STATE_HOME to a "
            f"directory that you can write to, or {VARIABLE}={named}."
        )
    ours, found = _marks(directory, key), _found_marks(directory)
    if set(ours) <= set(found):
        return
    others = [one for one in found if one not in ours][-MAX_MARKS:]
    draft = directory / f".{MARK}-{os.urandom(4).hex()}"
    _write_private(draft, "\n".join([*others, *ours]) + "\n")
    draft.replace(directory / MARK)


def spelled(directory: Path) -> str:
    """What child processes get as SKITTER_DIR: an absolute path, which they trust, if we do."""
    return str(directory.absolute()) if is_known(directory) else os.path.relpath(directory)


# --- the key --------------------------------------------------------------------------------------


def _places() -> Iterator[Path]:
    """Where a key may be. The last two are for users without a home that they can write to."""
    try:
        state = [state_dir() / "skitter"]
    except OSError:
        state = []
    yield from (*state, *(Path(one) / f"skitter-{os.geteuid()}" for one in ("/var/tmp", "/tmp")))


def _keys() -> Iterator[bytes]:
    for place in _places():
        with suppress(OSError, DirectoryUnusable, ValueError):
            check_owner(place)
            yield bytes.fromhex(read_private(place / KEY))


def _key() -> bytes | None:
    """The first that there is; made if there is none. None: nowhere can a file be made."""
    for place in _places():
        with suppress(OSError, DirectoryUnusable, ValueError):
            _make_folder(place)
            return bytes.fromhex(read_or_make(place / KEY))
    return None


def _make_folder(place: Path) -> None:
    there = next(parent for parent in (place, *place.parents) if parent.exists())
    if os.geteuid() == 0 and there.stat().st_uid != 0:  # sudo in a user's home: leave it theirs
        raise PermissionError
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_owner(place)


# --- files ----------------------------------------------------------------------------------------


def read_private(path: Path) -> str:
    """Read a file that only we may read or write, unmodified by others; never through a link. Who
    leaves a pipe there does not keep us waiting."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, errors="replace") as file:
        found = os.fstat(fd)
        is_private = found.st_uid == os.geteuid() and not found.st_mode & GROUP_OR_OTHERS
        if not (is_private and stat.S_ISREG(found.st_mode)):
            raise DirectoryUnusable(
                f"{path} is not as Skitter wrote it (owner uid {found.st_uid}, mode "
                f"{stat.S_IMODE(found.st_mode):o}), so it is ignored: remove it, then start "
                "again; the data beside it stays."
            )
        return file.read(MAX_CHARS)


def read_or_make(path: Path) -> str:
    """A random secret of this file. Processes that make it at once get the same."""
    with suppress(FileNotFoundError):
        return read_private(path).strip()
    draft = path.with_name(f".{path.name}-{os.urandom(4).hex()}")
    _write_private(draft, os.urandom(32).hex())
    try:
        with suppress(FileExistsError):  # another process was faster
            os.link(draft, path)  # atomic
    finally:
        draft.unlink()
    return read_private(path).strip()


def _write_private(path: Path, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write(text)


def open_append(path: Path) -> int:
    """A descriptor for appending to one of our files; never through a link."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, 0o600)


def state_dir() -> Path:
    """Where programs of this user keep their state. OSError: the user has no home directory, like
    those of systemd's DynamicUser= and of many containers."""
    chosen = Path(os.environ.get("XDG_STATE_HOME", ""))
    if chosen.is_absolute():  # by its specification, a relative one counts as unset
        return chosen
    with suppress(RuntimeError):
        if (home := Path.home()).is_absolute() and home.is_dir():  # root would make it
            return home / ".local" / "state"
    raise FileNotFoundError(errno.ENOENT, "this user has no home directory")
