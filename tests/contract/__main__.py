"""``python -m tests.contract``: which rows of the HAL's contract the tests show."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from textwrap import shorten
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tests.contract.marked import TESTS, collect
from tests.contract.states import RowState, State, join, summary
from tests.contract.table import ROWS, ContractError, Family, read_table

_BEHAVIOUR_WIDTH = 72
_STYLES = {State.SHOWN: "", State.NOT_APPLICABLE: "dim", State.MISSING: "bold red"}


def contract(
    families: Annotated[
        list[str] | None, typer.Argument(metavar="[FAMILY]...", help="Such as DV PM; else all.")
    ] = None,
    missing: Annotated[bool, typer.Option("--missing", help="List only rows that nothing shows.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    tests: Annotated[Path, typer.Option(help="The folder of the tests.")] = TESTS,
    rows: Annotated[Path, typer.Option(help="The folder of the rows.")] = ROWS,
) -> None:
    """Print for each row of the contract which tests show it.

    Exits with 1 if no test shows some row that applies, with 2 if a test names a row that does not exist or does not
    apply.
    """
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    try:
        table = read_table(rows)
        chosen = _choose(table, families or [])
        with console.status("collecting tests"):
            marks = collect(tests)
        states = [state for state in join(table, marks) if state.row.family in chosen]
    except ContractError as error:
        console.print(str(error), markup=False)
        raise typer.Exit(2) from error
    listed = [state for state in states if state.state == State.MISSING or not missing]
    if as_json:
        print(json.dumps(_as_dict(states, listed)))
    else:
        _show(Console(highlight=False), table, listed)
        print(summary(states))
    raise typer.Exit(any(state.state == State.MISSING for state in states))


def _choose(table: Sequence[Family], wanted: Sequence[str]) -> set[str]:
    known = {family.code for family in table}
    chosen = {code.upper() for code in wanted}
    if unknown := sorted(chosen - known):
        raise ContractError(f"no family {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    return chosen or known


def _as_dict(states: Sequence[RowState], listed: Sequence[RowState]) -> dict[str, object]:
    count = Counter(state.state for state in states)
    return {
        "rows": [
            {
                "id": state.row.id,
                "behaviour": state.row.behaviour,
                "state": state.state,
                "not_applicable": state.row.not_applicable,
                "tests": state.tests,
            }
            for state in listed
        ],
        "counts": {state: count[state] for state in State},
    }


def _show(console: Console, table: Sequence[Family], listed: Sequence[RowState]) -> None:
    for family in table:
        states = [state for state in listed if state.row.family == family.code]
        if not states:
            continue
        if console.is_terminal:
            console.print(_table(family, states))
        else:
            _print_plainly(family, states)


def _table(family: Family, states: Sequence[RowState]) -> Table:
    table = Table(title=f"{family.code}: {family.title}", title_justify="left", expand=True)
    table.add_column("row", no_wrap=True)
    table.add_column("behaviour", no_wrap=True, ratio=1)
    table.add_column("state", overflow="fold", ratio=1)
    for state in states:
        cells = (state.row.id, state.row.behaviour, _describe(state))
        table.add_row(*(Text(cell) for cell in cells), style=_STYLES[state.state])
    return table


def _print_plainly(family: Family, states: Sequence[RowState]) -> None:
    print(f"{family.code}: {family.title}")
    for state in states:
        behaviour = shorten(state.row.behaviour, _BEHAVIOUR_WIDTH, placeholder=" …")
        print(f"  {state.row.id}  {behaviour:{_BEHAVIOUR_WIDTH}}  {_describe(state)}")
    print()


def _describe(state: RowState) -> str:
    if state.row.not_applicable is not None:
        return f"does not apply: {state.row.not_applicable}"
    if not state.tests:
        return "nothing shows it"
    count = len(state.tests)
    return f"shown by {count} test{'s' if count > 1 else ''}: {state.tests[0]}"


if __name__ == "__main__":
    typer.run(contract)
