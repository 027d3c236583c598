"""The menu of commands, and the only place that turns errors into exit codes.

Exit codes: 0 done, 1 a check found something or the frontier said no, 2 usage, 3 infrastructure,
4 the crawl ended but held URLs back, 130 interrupted.
"""

from __future__ import annotations

import errno
import os
import sys
from io import TextIOWrapper

from skitter.cli import tuning
from skitter.disk import NO_ROOM
from skitter.errors import SkitterError, shorten

#: The menu: the panels of `skitter --help` with their commands, in this order, and where each is
#: in skitter.cli. A command's module is imported when it is called.
PANELS = {
    "Begin": {
        "demo": "commands.demo:demo",
        "new": "commands.project:new",
        "fetch": "commands.shell:fetch",
        "shell": "commands.shell:shell",
        "map": "commands.map:map_site",
        "plan": "commands.project:plan",
        "test": "tests:group",
    },
    "Crawl": {
        "run": "crawl:run",
        "crawl": "crawl:crawl",
        "worker": "crawl:worker",
        "celery": "running:celery",
        "load": "outputs:load_items",
        "export": "outputs:export_items",
        "archive": "commands.archive:group",
        "replay": "commands.archive:replay",
        "adopt": "commands.jobs:adopt",
    },
    "Feed and watch": {
        "push": "commands.jobs:push",
        "status": "commands.jobs:status",
        "rejected": "commands.jobs:rejected",
        "quality": "commands.metrics:quality",
        "metrics": "commands.metrics:metrics",
        "logs": "commands.workers:logs",
        "top": "commands.workers:top",
        "hosts": "commands.metrics:hosts",
    },
    "Steer": {
        "create": "commands.steer:create",
        "pause": "commands.steer:pause",
        "resume": "commands.steer:resume",
        "drain": "commands.steer:drain",
        "cancel": "commands.steer:cancel",
        "purge": "commands.steer:purge",
        "set": "commands.steer:set_options",
        "host": "commands.steer:host",
        "scale": "commands.workers:scale",
        "schedule": "commands.automation:group",
        "webhook": "commands.automation:webhook_group",
    },
    "Check and repair": {
        "audit": "commands.check:audit_job",
        "why": "commands.check:explain",
        "dead": "commands.dead:group",
        "health": "commands.check:health",
    },
    "Set up": {
        "config": "commands.project:config",
        "proxy": "commands.proxies:group",
        "up": "commands.server:up",
        "down": "commands.server:down",
        "trust": "commands.server:trust_directory",
        "doctor": "commands.server:doctor",
        "serve": "dashboard:serve",
        "token": "commands.automation:token_group",
        "completion": "group:completion",
    },
}
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
    tuning.hold_off()
    try:
        run_command()
    finally:
        tuning.leave()


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
    """Children of `run` do not load the menu, and the menu does not load any command."""
    if words[2:3] == ["--parent"]:
        from skitter.cli.child import main

        main(words)
    elif words == ["--version"]:
        from skitter.cli.menu import show_version

        show_version()
    elif words in ([], ["--help"]) and "_SKITTER_COMPLETE" not in os.environ:
        from skitter.cli.menu import show_menu

        show_menu(PANELS)
        sys.exit(0 if words else 2)
    elif words[:1] != ["status"] or not _show_status(words[1:]):
        from skitter.cli.group import call

        call(PANELS, words)


def _show_status(words: list[str]) -> bool:
    from skitter.cli.status import show_plainly

    return show_plainly(words)


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
