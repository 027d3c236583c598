"""What `top` and `logs` show, as pure functions: no server, no terminal, no clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from skitter.cli.show.console import plain
from skitter.cli.show.progress import eta_of, speed
from skitter.crawl.watch import Overview
from skitter.frontier.records.health import LATE_S, Trouble
from skitter.frontier.records.operators import Action
from skitter.frontier.sites.hosts import Bound
from skitter.frontier.workers import Event, Heartbeat
from skitter.model import State
from skitter.observe.report import DATE_AND_TIME, TIME, duration, moment, some
from skitter.redact import clean

T = TypeVar("T")

_LEVEL_STYLES: Final = {"debug": "dim", "warning": "yellow", "error": "bold red"}
_STATE_STYLES: Final = {
    State.RUNNING: "green",
    State.PAUSED: "yellow",
    State.DRAINING: "yellow",
    State.CANCELLED: "red",
}
#: Space between columns; the shortest a name is cut to.
GAP: Final = 2
SHORTEST_NAME: Final = 12
#: On a narrow terminal the highest is dropped first; done and dead stay.
_JOB_COUNTS: Final = {"pending": 4, "delayed": 6, "leased": 7, "done": 0, "dead": 0, "items": 5}
#: Lines of the screen that show neither jobs, nor processes, nor the log.
_FRAME: Final = 7
#: With fewer columns the log shows short names.
_NARROW: Final = 72


# --- the log --------------------------------------------------------------------------------------


def event_line(event: Event, *, job: str = "", date: bool = True, short: bool = False) -> Text:
    """One line of the log, coloured by level; `short`: with only the process as the name."""
    text = Text(moment(event.at, DATE_AND_TIME if date else TIME), style="dim")
    style = _LEVEL_STYLES.get(event.level, "")
    worker = _short_name(event.worker) if short else event.worker
    text.append(f"  {clean(event.level):<7}", style=f"not dim {style}")
    text.append(f"  {clean(f'{job} {worker}'.strip())}", style="not dim cyan")
    text.append(f"  {clean(event.text)}", style=f"not dim {style}")
    if event.url and event.url not in event.text:
        text.append(f"  {clean(event.url)}")
    return text


def action_line(action: Action) -> Text:
    """One line of the action log."""
    text = Text(moment(action.at, DATE_AND_TIME), style="dim")
    text.append(f"  {clean(action.who)}", style="not dim cyan")
    return text.append(f"  {clean(f'{action.what} {action.detail}'.strip())}", style="not dim")


# --- top ------------------------------------------------------------------------------------------


def plain_line(look: Overview) -> str:
    """One job on one line, for a pipe or a file."""
    return (
        f"{moment(look.at, TIME)}  {look.job}  {look.status}  "
        f"{look.pending:,} pending, {look.delayed:,} delayed, "
        f"{look.leased:,} leased, {look.done:,} done, {look.dead:,} dead, "
        f"{speed(look.pages_per_s)}/s, {some(look.hosts, 'host')}, "
        f"{some(look.fetching, 'worker')}, ETA {eta_of(look)}"
    )


@dataclass(frozen=True, slots=True)
class Screen:
    """The size of the terminal."""

    width: int
    height: int


def top_view(
    looks: Sequence[Overview],
    *,
    title: str = "",
    note: str = "",
    screen: Screen | None = None,
    width: int | None = None,
) -> Group:
    """The jobs, their workers, and the end of the log.

    On a screen, long lists are cut and the log gets the remaining lines; elsewhere only the log is
    cut. Columns that do not fit in `width` are left out.
    """
    looks = sorted(looks, key=lambda look: (look.finished, look.job))
    several = len(looks) != 1
    width = screen.width if screen else width
    processes = [(look, worker) for look in looks for worker in look.workers]
    in_trouble = sum(bool(beat.note) for _, beat in processes)
    slowed = [_slowed(look, look.bound) for look in looks if look.bound and look.bound.is_slowed]
    needs = [_need(look, trouble) for look in looks for trouble in look.troubles]
    other = in_trouble + len(slowed) + len(needs)
    room = _share(screen, jobs=len(looks), processes=len(processes), other=other)
    parts: list[RenderableType] = [_headline(looks, len(processes), title), ""]
    if looks:
        parts.append(_jobs_table(looks, room.jobs, width=width))
    else:
        parts.append(Text("There are no jobs yet: `skitter push JOB URL` creates one."))
    parts += ["", _process_table(processes, room.processes, several=several, width=width), ""]
    parts += [_trouble(look, beat) for look, beat in processes if beat.note] + slowed + needs
    lines = _log_lines(looks, room.log, several=several, width=width)
    parts += lines
    if screen is not None:
        parts += [""] * (room.log - len(lines))
        parts.append(_footer(note))
    return Group(*parts)


@dataclass(frozen=True, slots=True)
class _Room:
    jobs: int
    processes: int
    log: int


def _share(screen: Screen | None, *, jobs: int, processes: int, other: int) -> _Room:
    """Lines for each part. The log gets the rest, but at least a quarter."""
    if screen is None:
        return _Room(jobs, processes, 10)
    lines = max(6, screen.height - _FRAME - other)
    for_processes = min(max(1, processes), max(2, lines // 2 - min(jobs, lines // 4)))
    for_jobs = min(max(1, jobs), max(2, lines * 3 // 4 - for_processes))
    return _Room(for_jobs, for_processes, max(1, lines - for_jobs - for_processes))


def _headline(looks: Sequence[Overview], processes: int, title: str) -> Text:
    text = Text("skitter top", style="bold", no_wrap=True, overflow="ellipsis")
    parts = [some(len(looks), "job"), f"{some(processes, 'process', 'processes')} at work"]
    if looks:
        parts.append(moment(max(look.at for look in looks), f"{TIME} UTC"))
    if title:
        parts.append(title)
    return text.append(f"   {' · '.join(parts)}", style="not bold dim")


def _jobs_table(looks: Sequence[Overview], rows: int, *, width: int | None) -> Table:
    shown = _first(looks, rows)
    columns = [
        _Column("job", [_name(look.job, "bold") for look in shown]),
        _Column("state", [_state(look) for look in shown], drop=2, number=False),
        *(
            _Column(name, [_count(look, name) for look in shown], drop=drop)
            for name, drop in _JOB_COUNTS.items()
        ),
        _Column("pages/s", [Text(speed(look.pages_per_s)) for look in shown], drop=3),
        _Column("hosts", [Text(f"{look.hosts:,}") for look in shown], drop=8),
        _Column("ETA", [Text(eta_of(look)) for look in shown], drop=1),
    ]
    table = _table(_fitting(columns, width))
    if len(shown) < len(looks):
        table.add_row(_name(f"... {len(looks) - len(shown):,} more", "dim"))
    return table


def _state(look: Overview) -> Text:
    if look.troubles:
        return Text(look.troubles[0].kind, style="red")
    style = "blue" if look.finished else _STATE_STYLES[look.state]
    return Text(look.status, style=style)


def _count(look: Overview, name: str) -> Text:
    value: int = getattr(look, name)
    return Text(f"{value:,}", style="red" if name == "dead" and value else "")


def _process_table(
    processes: Sequence[tuple[Overview, Heartbeat]], rows: int, *, several: bool, width: int | None
) -> RenderableType:
    if not processes:
        return Text(
            "No workers: start some with `skitter run SPIDER` or `skitter worker SPIDER`.", "dim"
        )
    shown = _first(processes, rows)
    beats = [beat for _, beat in shown]
    columns = [
        *([_Column("job", [_name(look.job, "bold") for look, _ in shown])] if several else []),
        _Column("host", [_name(clean(beat.host), "cyan") for beat in beats], drop=4),
        _Column("kind", [plain(beat.kind) for beat in beats], drop=5, number=False),
        _Column("pid", [Text(str(beat.pid)) for beat in beats]),
        _Column("pages", [Text(f"{beat.pages:,}") for beat in beats]),
        _Column("errors", [_errors(beat) for beat in beats], drop=1),
        _Column("active", [Text(f"{beat.active:,}") for beat in beats], drop=3),
        _Column("memory", [Text(f"{beat.memory_mb:,.0f} MB") for beat in beats], drop=6),
        _Column("since", [_since(look, beat) for look, beat in shown], drop=7),
        _Column("last seen", [_heard(look, beat) for look, beat in shown], drop=2),
    ]
    table = _table(_fitting(columns, width))
    if len(shown) < len(processes):
        table.add_row(_name(f"... {len(processes) - len(shown):,} more", "dim"))
    return table


def _errors(heartbeat: Heartbeat) -> Text:
    return Text(f"{heartbeat.errors:,}", style="yellow" if heartbeat.errors else "")


def _since(look: Overview, heartbeat: Heartbeat) -> Text:
    return Text(duration(max(0.0, look.at - heartbeat.started_at)))


def _heard(look: Overview, heartbeat: Heartbeat) -> Text:
    silent_s = max(0.0, look.at - heartbeat.at)
    return Text(f"{silent_s:.0f} s ago", style="yellow" if silent_s > LATE_S else "")


def _slowed(look: Overview, bound: Bound) -> Text:
    """Why the host that will finish last takes so long."""
    says = f"{look.job}: {clean(bound.host)} gets a request every {bound.delay_s:g} s: {bound.why}"
    return Text(says, style="yellow", no_wrap=True, overflow="ellipsis")


def _need(look: Overview, trouble: Trouble) -> Text:
    text = clean(f"{look.job}: {trouble.says}: {trouble.command}")
    return Text(text, style="red", no_wrap=True, overflow="ellipsis")


def _trouble(look: Overview, heartbeat: Heartbeat) -> Text:
    text = clean(f"{look.job}, {heartbeat.kind} {heartbeat.pid}: {heartbeat.note}")
    return Text(text, style="yellow", no_wrap=True, overflow="ellipsis")


def _log_lines(
    looks: Sequence[Overview], count: int, *, several: bool, width: int | None
) -> list[Text]:
    events = [(event.at, event.id, look.job, event) for look in looks for event in look.log]
    events.sort(key=lambda entry: entry[:3])
    lines = []
    for _, _, job, event in events[-count:] if count else ():
        narrow = width is not None and width < _NARROW
        line = event_line(event, job=job if several else "", date=False, short=narrow)
        line.no_wrap, line.overflow = True, "ellipsis"
        lines.append(line)
    return lines


def _short_name(worker: str) -> str:
    """The process in host-process-mark; the start of any other name."""
    return worker.rsplit("-", 2)[-2] if "-" in worker else worker


def _footer(note: str) -> Text:
    if note:
        return Text(clean(note), style="bold red", no_wrap=True, overflow="ellipsis")
    return Text("q leaves", style="dim")


@dataclass(frozen=True, slots=True)
class _Column:
    """One column of a table; on narrow terminals the least important are dropped first."""

    name: str
    cells: Sequence[Text]
    drop: int = 0  # the highest is dropped first; 0: never
    number: bool = True

    @property
    def is_name(self) -> bool:
        return any(cell.overflow for cell in self.cells)

    @property
    def width(self) -> int:
        widest = max((cell.cell_len for cell in self.cells), default=0)
        return min(widest, SHORTEST_NAME) if self.is_name else max(widest, len(self.name))


def _fitting(columns: list[_Column], width: int | None) -> list[_Column]:
    """As many columns as fit: names may be cut, numbers may not."""
    columns = list(columns)
    while width is not None and sum(max(column.width, 3) + GAP for column in columns) - GAP > width:
        least = max(columns, key=lambda column: column.drop)
        if not least.drop:
            break
        columns.remove(least)
    return columns


def _table(columns: Sequence[_Column]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, GAP, 0, 0))
    for column in columns:
        if column.is_name:
            table.add_column(
                column.name, min_width=column.width
            )  # Rich shrinks wrapping columns first
        else:
            table.add_column(
                column.name, justify="right" if column.number else "left", no_wrap=True
            )
    for row in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*row)
    return table


def _name(text: str, style: str) -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _first(values: Sequence[T], rows: int) -> Sequence[T]:
    """All that fit; if not all do, one line is left to say so."""
    return values if len(values) <= rows else values[: max(0, rows - 1)]
