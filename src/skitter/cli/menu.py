"""The menu of commands: `skitter --help`, `--version`, completion, and what leads to a command.

A command's module is imported when its name is called, asked about or completed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from enum import StrEnum
from importlib import import_module
from typing import Annotated, Any

import click
from click.shell_completion import CompletionItem, get_completion_class, shell_complete

from skitter.cli import tuning
from skitter.cli.parameters import Argument, Group, command
from skitter.errors import SkitterError

NAME, VARIABLE = "skitter", "_SKITTER_COMPLETE"
ABOUT = "A distributed web-scraping system in which every URL is accounted for."
NOTE = (
    "`skitter COMMAND --help` shows the options of a command, `skitter --all` what each command "
    "does, `skitter --version` what is installed. State is kept on the server that --redis URL or "
    "SKITTER_REDIS_URL names; without either, an embedded server starts by itself, in .skitter/. "
    "Most commands take --json."
)
WIDEST = 100
#: Celery parses its own options, including --help.
PASSING = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}

#: The commands that a newcomer needs, which `skitter --help` explains.
FIRST = ("demo", "new", "fetch", "run", "crawl", "status", "export", "dead", "why", "serve")
#: All commands by what they are for, in the order of `skitter --all`: where each is in skitter.cli,
#: and the first line of its help, which would otherwise import them all.
PANELS = {
    "Write a spider": {
        "demo": ("commands.prepare:demo", "Crawl a bundled bookshop, and audit the result."),
        "new": ("commands.prepare:new", "Write a working spider and its test, for you to change."),
        "fetch": ("commands.pages.shell:fetch", "Show one page as a worker sees it."),
        "shell": (
            "commands.pages.shell:shell",
            "Open a Python shell with a page that was just fetched.",
        ),
        "map": (
            "commands.pages.map:map_site",
            "List a site's URLs from its sitemaps, feeds or links.",
        ),
        "plan": (
            "commands.prepare:plan",
            "Say how long a crawl takes, what it needs, and what bounds it.",
        ),
        "test": ("tests:group", "Test spiders on saved pages, without the web."),
    },
    "Crawl": {
        "run": ("crawl:run", "Crawl with a spider: workers, a loader and a live display."),
        "crawl": ("crawl:crawl", "Crawl without a spider, and store what every page says."),
        "worker": ("crawl:worker", "Join a crawl with the workers of this machine."),
        "agent": (
            "commands.runs:agent",
            "Serve runs of the spiders in a list, until stopped.",
        ),
        "start": ("commands.runs:start", "Start a run of a spider on an agent."),
        "runs": (
            "commands.runs:group",
            "Show, stop and repeat runs; without a command, list the newest.",
        ),
        "celery": (
            "running:celery",
            "Run a command of Celery on Skitter's app, such as `worker -c 4`.",
        ),
    },
    "Items and pages": {
        "load": (
            "outputs:load_items",
            "Move items from the server into a database or file, until stopped.",
        ),
        "export": ("outputs:export_items", "Copy a job's rows from its database into a file."),
        "changes": (
            "outputs:changes",
            "Show what later visits found: fields that changed, new and gone pages.",
        ),
        "rejected": (
            "commands.jobs:rejected",
            "Show items that do not fit their type or cannot be stored.",
        ),
        "archive": (
            "commands.pages.archive:group",
            "Show and read the pages that a crawl has kept.",
        ),
        "replay": ("commands.pages.again:replay", "Run a spider on kept pages, without the web."),
        "redo": (
            "commands.pages.again:redo",
            "Handle pages again, with the spider as it is now.",
        ),
        "forget": (
            "commands.leaving:forget_urls",
            "Forget pages that are done, so that a link or a push brings them again.",
        ),
        "seen": (
            "commands.leaving:seen",
            "Keep what a job has fetched in a file, or take it from there.",
        ),
    },
    "Watch": {
        "status": (
            "status:status",
            "Show how many URLs are pending, leased, done and dead.",
        ),
        "top": ("commands.workers:top", "Watch jobs, workers, rates and the log live."),
        "logs": ("commands.workers:logs", "Show the log of all workers on all machines."),
        "metrics": (
            "commands.metrics:metrics",
            "Show what a crawl, or your own code, has counted and timed.",
        ),
        "quality": (
            "commands.metrics:quality",
            "Show how often each field of the items is filled, now and before.",
        ),
        "tail": (
            "commands.runs:tail",
            "Print items as JSON lines, as they are found, until the crawl is over.",
        ),
        "hosts": ("commands.metrics:hosts", "Show the hosts with the longest delays, and why."),
    },
    "Steer": {
        "push": ("commands.jobs:push", "Add URLs to a job, which is created if needed."),
        "create": ("commands.steer:create", "Create a job with options of its own."),
        "pause": ("commands.steer:pause", "Stop handing out URLs; new ones are still accepted."),
        "resume": ("commands.steer:resume", "Continue after pause, drain or cancel."),
        "drain": (
            "commands.steer:drain",
            "Finish the queue; accept no new URLs. New links are lost: `pause` keeps them.",
        ),
        "cancel": (
            "commands.steer:cancel",
            "Stop, and accept no new URLs; the queue stays for `resume`.",
        ),
        "purge": ("commands.steer:purge", "Remove a job with its queue, history and items."),
        "set": ("commands.steer:set_options", "Show a job's limits, or change them while it runs."),
        "host": ("commands.steer:host", "Show one host, or override the job's limits for it."),
        "scale": ("commands.workers:scale", "Set how many workers a job has."),
        "schedule": ("commands.automation:group", "Start rounds of a job on a schedule."),
        "webhook": (
            "commands.automation:webhook_group",
            "Get a message when a crawl finishes or is in trouble.",
        ),
    },
    "Check and repair": {
        "audit": ("commands.check:audit_job", "Check that every URL is accounted for."),
        "why": (
            "commands.check:explain",
            "Explain where a URL is, what it waits for, and where it was found.",
        ),
        "dead": ("commands.dead:group", "List, retry or drop URLs that were given up."),
        "health": (
            "commands.check:health",
            "Say in one line whether the server, or this machine's worker or loader, is healthy.",
        ),
        "doctor": (
            "commands.server:doctor",
            "Check the server, and say how to fix what is wrong with it.",
        ),
    },
    "Set up": {
        "config": (
            "commands.prepare:config",
            "Show every setting, its value, and where that came from.",
        ),
        "proxy": ("commands.proxies:group", "Test proxies, and see what they deliver and cost."),
        "up": (
            "commands.server:up",
            "Start the embedded server, and keep it running until `down`.",
        ),
        "down": ("commands.server:down", "Stop the embedded server."),
        "trust": (
            "commands.server:trust_directory",
            "Use a directory that another release, machine or user made.",
        ),
        "serve": ("dashboard:serve", "Serve the HTTP API and the dashboard, until stopped."),
        "token": (
            "commands.automation:token_group",
            "Make, list and revoke tokens for the HTTP API.",
        ),
        "tenant": (
            "commands.tenants:group",
            "Set quotas for the jobs of one name pattern, and see what is used.",
        ),
        "adopt": (
            "commands.jobs:adopt",
            "Take over the queue of a scrapy-redis spider, or a queue of your own on Redis.",
        ),
        "release": (
            "commands.leaving:release",
            "Give the queue and the seen-set of a Scrapy job back to scrapy-redis.",
        ),
        "completion": ("menu:completion", "Print a completion script for bash, zsh or fish."),
    },
}

#: What commands are called elsewhere, where the name does not resemble ours.
ELSEWHERE = {
    "items": "export",
    "jobs": "status",
    "list": "status",
    "ls": "status",
    "monitor": "status -w",
    "stats": "status",
    "pop": "shell",
    "stop": "cancel",
    "delete": "purge",
    "rm": "purge",
    **dict.fromkeys(("add", "add-url", "add-urls", "enqueue", "push-bulk"), "push"),
    **dict.fromkeys(("mark-failed", "failed"), "dead list"),
    "clear": "purge",
    "get-stats": "status",
    "results": "export",
    "retry": "dead retry",
    "init": "new",
    "genspider": "new",
    "dashboard": "serve",
    "ui": "serve",
    "settings": "config",
    "version": "--version",
}


class Menu(Group):
    def __init__(self) -> None:
        shown = {"--version": show_version, "--all": self.show_all}
        super().__init__(
            help=ABOUT,
            epilog=NOTE,
            params=[
                click.Option([name], is_flag=True, is_eager=True, expose_value=False, callback=show)
                for name, show in shown.items()
            ],
            options_metavar=None,
            subcommand_metavar="COMMAND [OPTIONS] [ARGS]...",
        )
        self.homes = {name: entry for panel in PANELS.values() for name, entry in panel.items()}
        self.shows_all = False

    def show_all(self, ctx: click.Context, option: click.Parameter, is_asked: bool) -> None:
        """What every command does."""
        if is_asked and not ctx.resilient_parsing:
            self.shows_all = True
            click.echo(self.get_help(ctx))
            ctx.exit()

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.homes)

    def get_command(self, ctx: Any, name: str) -> click.Command | None:
        if name in self.homes and name not in self.commands:
            module, _, attribute = self.homes[name][0].partition(":")
            found = getattr(import_module(f"skitter.cli.{module}"), attribute)
            if not isinstance(found, click.Command):
                found = command(found, name, settings=PASSING if name == "celery" else None)
            self.add_command(found, name)
            tuning.begin()
        return self.commands.get(name)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args[0] not in self.homes and not ctx.resilient_parsing:
            if ours := ELSEWHERE.get(args[0].replace("_", "-")):
                ctx.fail(f"No such command {args[0]!r}. Did you mean {ours!r}?")
            raise click.NoSuchCommand(args[0], possibilities=self.homes, ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        first: Mapping[str, Iterable[str]] = {"Begin with": FIRST}
        sections = PANELS if self.shows_all else first
        width = max(map(len, self.homes))
        for title, names in sections.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{width}}", self.homes[name][1]) for name in names])
        if not self.shows_all:
            with formatter.section("All commands"):
                formatter.write_dl([(title, ", ".join(panel)) for title, panel in PANELS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """By default, click imports every command for its help: too slow for a Tab."""
        found = [name for name in self.homes if name.startswith(incomplete)]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*(CompletionItem(name, help=self.homes[name][1]) for name in found), *options]


def all_commands() -> Menu:
    """The menu with every command loaded."""
    menu = Menu()
    for name in menu.homes:
        menu.get_command(None, name)
    return menu


def call(words: list[str]) -> None:
    """Click's `main` would exit with 1 on Ctrl-C and on a broken pipe."""
    menu = Menu()
    if asked := os.environ.get(VARIABLE):
        sys.exit(shell_complete(menu, {}, NAME, VARIABLE, asked))
    try:
        with menu.make_context(NAME, words, max_content_width=WIDEST) as context:
            menu.invoke(context)
    except click.exceptions.Exit as ended:
        sys.exit(ended.exit_code)
    except click.Abort:  # Ctrl-C at a question
        sys.exit("Aborted!")
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)


def show_version(ctx: click.Context, option: click.Parameter, is_asked: bool) -> None:
    """Skitter, Python, and the server that a crawl here would start."""
    if not is_asked or ctx.resilient_parsing:
        return
    import platform

    from skitter import __version__

    rows = {"Skitter": __version__, "Python": platform.python_version(), "server": _server()}
    sys.stdout.write("".join(f"{name:8} {value}\n" for name, value in rows.items()))
    ctx.exit()


def _server() -> str:
    from skitter.embedded.program import VARIABLE, examine_binary

    try:
        found = examine_binary()
    except SkitterError as error:
        return f"none: {error}"
    where = f", {found.path} ({VARIABLE})" if os.environ.get(VARIABLE) else ""
    preloaded = f", with {found.preload}" if found.preload else ""
    return f"{found.name} {found.version}{where}{preloaded}"


class Shell(StrEnum):
    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def completion(
    shell: Annotated[Shell, Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print a completion script for bash, zsh or fish.

    To use it in bash: source <(skitter completion bash)
    """
    script = get_completion_class(shell)
    assert script is not None
    print(script(Menu(), {}, NAME, VARIABLE).source())
