"""Options that the commands for operators share, and how they open and show."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from nnhal_pages.command_parameters import taking
from nnhal_pages.terminal import output_console
from nnhal_tools.fitted_rows import fitted_rows
from nnhal_tools.operate.operator_session import OperatorSession
from nnhal_tools.settings import DEFAULT_DIRECTORY, ClientSettings

DirectoryOption = Annotated[
    Path | None, typer.Option("--directory", help=f"Where the processes are; {DEFAULT_DIRECTORY} by default.")
]
KeyOption = Annotated[
    Path | None,
    typer.Option("--admin-key", metavar="FILE", help="The admin key of processes that 'nnhal up' does not supervise."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@contextmanager
def operator_at(directory: Path | None, key_file: Path | None) -> Iterator[OperatorSession]:
    """Reach the processes below a directory. Raises NnhalError, OSError, and ValueError for a bad key file."""
    with OperatorSession((directory or ClientSettings().directory).absolute(), key_file) as operator:
        yield operator


def at_a_testbed(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that say which testbed is meant, and --json.

    ``command`` gets a session with that testbed, and whether to print JSON, before its own arguments.
    """

    @wraps(command)
    def run(directory: Path | None, admin_key: Path | None, as_json: bool, **given: Any) -> None:
        with operator_at(directory, admin_key) as operator:
            command(operator, as_json, **given)

    _, _, *own = signature(command, eval_str=True).parameters.values()
    shared = [
        Parameter("directory", Parameter.KEYWORD_ONLY, default=None, annotation=DirectoryOption),
        Parameter("admin_key", Parameter.KEYWORD_ONLY, default=None, annotation=KeyOption),
        Parameter("as_json", Parameter.KEYWORD_ONLY, default=False, annotation=JsonOption),
    ]
    return taking((*own, *shared), run)


def print_json(value: Any) -> None:
    """Print one JSON value on a line."""
    print(json.dumps(value), flush=True)


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[str]], empty: str) -> None:
    """Print a table, or the sentence ``empty`` if it has no rows. Cells are text, never markup."""
    console = output_console()
    printable = [[printable_text(cell) for cell in row] for row in rows]
    if printable:
        console.print(fitted_rows(columns, printable, console.width))
    else:
        console.print(empty, markup=False)


def say(sentence: str, as_json: bool, **values: Any) -> None:
    """Say what was done: a sentence, or the values as JSON."""
    if as_json:
        print_json(values)
    else:
        output_console().print(Text(printable_text(sentence)), soft_wrap=True)


def printable_text(text: str) -> str:
    """A text without characters that a terminal obeys: names and commands come from strangers."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
