"""``nnhal check``: whether a device's process serves as the documentation says."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from nnhal.errors import NnhalError
from nnhal_conformance import BAD, GROUPS, RULES, Rule, RuleResult, ask_rules
from nnhal_pages.terminal import output_console
from nnhal_tools.cli.completion import complete_driver
from nnhal_tools.given_model import require_writable
from nnhal_tools.rule_report import Printed, show_list, write_junit
from nnhal_tools.up import served_endpoint

_CANNOT_BE_ASKED = 2
_SECONDS = 5.0


def check(
    device: Annotated[
        str,
        typer.Argument(
            help="A running device's DIR, or a driver, which gets a process of its own.", autocompletion=complete_driver
        ),
    ] = "",
    only: Annotated[
        list[str] | None, typer.Option(help="Only the rules of a group, or those of a name; several times for more.")
    ] = None,
    limit: Annotated[float, typer.Option(help="How many seconds each answer may take.", min=0.1)] = _SECONDS,
    junit: Annotated[Path | None, typer.Option(help="Write the results as JUnit's XML to FILE.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the rules, and ask nothing.")] = False,
) -> None:
    """Check that a device's process, in whatever language, serves as the documentation says.

    It asks about links, sessions, memory, executions, channels, fences, chains, refusals, limits and clients that die,
    and not about arithmetic, which 'nnhal conformance' tests. A part that a device may leave out is 'not offered',
    with what follows. No other client may use the device meanwhile.

    Exit status 0 if all that is offered passes, 1 if a rule is broken, 2 if the device cannot be asked.

    nnhal check cpu_acc
    """
    chosen = _chosen(only or [])
    console = output_console()
    if list_:
        show_list(console, chosen)
        return
    if not device:
        raise typer.BadParameter("got no device, expected a running device's DIR or a driver")
    require_writable((junit,))
    printed, results = Printed(console), list[RuleResult]()
    try:
        with served_endpoint(device) as endpoint:
            for result in ask_rules(endpoint, chosen, limit):
                results.append(result)
                printed.show(result)
    except (NnhalError, OSError) as error:
        if not getattr(error, "is_reported", False):  # by the process itself, which this one was to start
            print(f"nnhal: {device} cannot be asked: {error}", file=sys.stderr)
        raise typer.Exit(_CANNOT_BE_ASKED) from error
    printed.end(results)
    if junit:
        write_junit(junit, device, results)
    if any(result.verdict in BAD for result in results):
        raise typer.Exit(1)


def _chosen(only: list[str]) -> list[Rule]:
    """The rules of some groups or names, or all. Raises BadParameter for what there is not."""
    found = [each for group in GROUPS for each in RULES.values() if each.group == group]
    known = {name for each in found for name in each.names}
    for name in only:
        if name not in known:
            raise typer.BadParameter(f"got --only {name}, expected a rule's name or one of {', '.join(GROUPS)}")
    return [each for each in found if not only or set(each.names) & set(only)]
