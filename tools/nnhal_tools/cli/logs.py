"""``nnhal show logs``."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Annotated

import typer
from rich.text import Text

from nnhal.near_names import there_are
from nnhal.v1 import admin_pb2
from nnhal_hosting.logs import LEVELS, levels_from
from nnhal_pages.operating.plain import plain
from nnhal_pages.operating.resources import clock
from nnhal_pages.terminal import output_console
from nnhal_tools.cli.completion import complete_process
from nnhal_tools.cli.operating import at_a_testbed, print_json
from nnhal_tools.operate.operator_session import OperatorSession

_LOOK_SECONDS = 0.5
_MOST_KEPT = 5000
_STYLES = {"warning": "yellow", "error": "bold red", "critical": "bold red"}


@at_a_testbed
def logs(
    operator: OperatorSession,
    as_json: bool,
    name: Annotated[
        str | None, typer.Argument(help="A process; all by default.", autocompletion=complete_process)
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new lines, until interrupted.")] = False,
    level: Annotated[
        str, typer.Option(help="Only lines of this level and above, and output that is no line of a log.")
    ] = "",
    request: Annotated[str, typer.Option(metavar="ID", help="Only lines about a request of this id.")] = "",
    lines: Annotated[int, typer.Option(help="The most lines to begin with.", min=1, max=_MOST_KEPT)] = 200,
) -> None:
    """Show what processes have logged, dead ones too."""
    if level and level not in LEVELS:
        raise ValueError(f"level {level!r}, expected one of {', '.join(LEVELS)}")
    read = _reader(operator, name)
    _print(_wanted(read(), level, request)[-lines:], as_json)
    while follow:
        time.sleep(_LOOK_SECONDS)
        _print(_wanted(read(), level, request), as_json)


def _reader(operator: OperatorSession, name: str | None) -> Callable[[], list[admin_pb2.LogLine]]:
    """Return the function that gives the lines that have come since its last call. Raises OperatorError for an unknown
    name.
    """
    if operator.is_supervised:
        return _supervised_reader(operator, name)
    names = [process.name for process in operator.processes()] if name is None else [operator.find(name).name]
    last = dict.fromkeys(names, 0)

    def read() -> list[admin_pb2.LogLine]:
        lines: list[admin_pb2.LogLine] = []
        for process in names:
            with operator.admin(operator.find(process)) as admin:
                answer = admin.log_lines(last[process], _MOST_KEPT)
            last[process] = answer.last
            for line in answer.lines:
                line.process = process
            lines += answer.lines
        return sorted(lines, key=lambda line: line.at_ns)

    return read


def _supervised_reader(operator: OperatorSession, name: str | None) -> Callable[[], list[admin_pb2.LogLine]]:
    supervisor, last = operator.supervisor, 0
    names = [process.name for process in supervisor.processes().processes]

    def read() -> list[admin_pb2.LogLine]:
        nonlocal last
        answer = supervisor.logs(name or "", last, _MOST_KEPT)
        if name is not None and name not in names and not answer.lines:
            raise ValueError(f"no process is called {name!r}; {there_are(name, names)}")
        last = answer.last
        return list(answer.lines)

    return read


def _wanted(lines: Sequence[admin_pb2.LogLine], level: str, request: str) -> list[admin_pb2.LogLine]:
    levels = {*levels_from(level), ""} if level else None
    chosen = [line for line in lines if levels is None or line.level in levels]
    return [line for line in chosen if line.request_id == request] if request else chosen


def _print(lines: Sequence[admin_pb2.LogLine], as_json: bool) -> None:
    console = output_console()
    for line in lines:
        if as_json:
            print_json(plain(line))
            continue
        text = Text(f"{clock(line.at_ns)} {line.process:<10} ")
        text.append(f"{line.level:<8} ", _STYLES.get(line.level, ""))
        text.append("".join(c if c.isprintable() or c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in line.text))
        console.print(text, soft_wrap=True)
