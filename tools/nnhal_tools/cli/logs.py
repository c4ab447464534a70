"""``nnhal show logs``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.text import Text

from nnhal.v1 import admin_pb2
from nnhal_hosting.logs import LEVELS, levels_from
from nnhal_pages.operating.plain import plain
from nnhal_pages.operating.resources.events import MOST_LINES, new_lines
from nnhal_pages.operating.snapshot import Snapshot
from nnhal_pages.operating.table import clock
from nnhal_pages.terminal import output_console
from nnhal_tools.cli.completion import complete_process
from nnhal_tools.cli.operating import at_a_testbed, print_json
from nnhal_tools.operate.operator_session import OperatorSession

_LOOK_SECONDS = 0.5
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
    lines: Annotated[int, typer.Option(help="The most lines to begin with.", min=1, max=MOST_LINES)] = 200,
) -> None:
    """Show what processes have logged, dead ones too."""
    if level and level not in LEVELS:
        raise ValueError(f"level {level!r}, expected one of {', '.join(LEVELS)}")
    seen: dict[str, int] = {}
    snapshot = Snapshot(supervisor=operator.supervisor, processes=tuple(operator.processes()))

    def read() -> list[admin_pb2.LogLine]:
        return _wanted(list(new_lines(operator.contacts, snapshot, seen, name or "")), level, request)

    first = read()
    if name is not None and not first:
        snapshot.known(name)  # of one that has been removed there may be lines
    _print(first[-lines:], as_json)
    while follow:
        time.sleep(_LOOK_SECONDS)
        _print(read(), as_json)


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
