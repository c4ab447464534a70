"""The commands, with what they share: help, and errors of one line with a hint."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated

import typer
from rich.console import Console

from nnhal.errors import DeadObjectError, NnhalError
from nnhal_tools.cli import bench, conformance, demo, doctor, explain, processes, run, stress

app = typer.Typer(
    name="nnhal",
    help="An emulator of a phone's NN HAL: accelerators as processes, models split over them by pool handles.",
    epilog="Start with 'nnhal demo'. 'nnhal COMMAND --help' says more about each command.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command("demo")(demo.demo)
app.command("run")(run.run)
app.command("explain")(explain.explain)
app.command("conformance")(conformance.conformance)
app.command("stress")(stress.stress)
app.command("doctor")(doctor.doctor)
app.command("up")(processes.up)
app.command("serve", context_settings=processes.PASS_THROUGH, add_help_option=False)(processes.serve)
app.command("device", context_settings=processes.PASS_THROUGH, add_help_option=False)(processes.device)
app.add_typer(bench.app, name="bench")


def _version(asked: bool) -> None:
    if asked:
        print(f"nnhal {version('nnhal')}")
        raise typer.Exit


@app.callback()
def _options(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    """Options before the command."""


def main() -> None:
    """Run the command. An error is one line on standard error."""
    try:
        app()
    except (NnhalError, OSError, ValueError) as error:
        console = Console(stderr=True, soft_wrap=True, highlight=False, emoji=False)
        console.print(f"nnhal: {_describe(error)}", markup=False)
        hint = _hint(error)
        if hint:
            console.print(f"hint: {hint}", markup=False)
        sys.exit(1)


def _describe(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _hint(error: Exception) -> str:
    if isinstance(error, DeadObjectError):
        return "is it running? 'nnhal up' starts devices and a framework"
    if isinstance(error, FileNotFoundError):
        return "check the path; it is relative to the present directory"
    return ""
