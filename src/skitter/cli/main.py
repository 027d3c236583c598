"""The entry point, and the only place that turns errors into exit codes.

Exit codes: 0 done, 1 a check found something or the frontier said no, 2 usage, 3 infrastructure,
4 the crawl ended but held URLs back, 130 interrupted.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from io import TextIOWrapper

from skitter.errors import NO_ROOM, SkitterError, shorten

#: System errors about a path that the user should not have named.
NOT_A_PATH = (
    errno.EACCES,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOTDIR,
    errno.EPERM,
    errno.EROFS,
)


def run() -> None:
    """The entry point."""
    gc.disable()  # until the command is imported: see tuning.begin
    run_command()


def run_command() -> None:
    """What the entry point does, for any process."""
    _open_what_is_closed()
    if isinstance(sys.stdout, TextIOWrapper):  # show ü as \xfc if the locale cannot encode it
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            _call(sys.argv[1:])
        finally:
            sys.stdout.flush()  # a broken pipe must show up here, not when Python exits
    except SkitterError as error:
        _print_error(str(error))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError as gone:  # the reader of our output has closed the pipe
        _drop_output()
        ended = gone.__context__
        sys.exit(ended.code if isinstance(ended, SystemExit) else 0)
    except SystemExit as ended:
        # Rich's console (here for stderr) exits with 1 when a pipe breaks.
        sys.exit(0 if isinstance(ended.__context__, BrokenPipeError) else ended.code)
    except OSError as error:
        sys.exit(_explain(error))


def _call(words: list[str]) -> None:
    if words[2:3] == ["--parent"]:  # a child of `run` or `agent`, which needs no menu
        if words[0] in ("started", "node", "offers", "pages"):
            from skitter.cli.started import main
        else:
            from skitter.cli.child import main
        main(words)
    else:
        from skitter.cli.menu import call

        call(words)


def _print_error(text: str) -> None:
    from skitter.cli.show.output import print_error

    print_error(text)


def _explain(error: OSError) -> int:
    """Explain an error of a disk or a path, and return the exit code. Raises others, as bugs."""
    if error.errno in NO_ROOM:
        _drop_output()
        _print_error(
            f"cannot write all of the output: {error.strerror}. Make room, and run it again."
        )
        return 3
    if error.errno == errno.ENOENT and error.filename is None and _is_nowhere():
        _print_error("the current directory was removed: change to one that exists.")
        return 2
    if error.errno in NOT_A_PATH and isinstance(error.filename, str):
        reason = str(error.strerror).lower()
        _print_error(
            f"cannot use {shorten(error.filename)}: {reason}. Name another file or directory."
        )
        return 2
    raise error


def _is_nowhere() -> bool:
    try:
        return not os.getcwd()  # noqa: PTH109
    except FileNotFoundError:
        return True


def _open_what_is_closed() -> None:
    """`>&-` frees a descriptor for the next socket to take, which crashes uvloop."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115


def _drop_output() -> None:
    """Else Python would print_error again when it flushes stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
