"""``nnhal native``: build the libraries, find them, and run programs with them."""

from __future__ import annotations

import os
import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from nnhal_native import library_path
from nnhal_tools.cli.launch import found_program, launch

_SOURCES = Path(__file__).parents[1] / "build_libraries.py"

app = typer.Typer(help="Run programs of NNAPI and TensorFlow Lite, unchanged.", no_args_is_help=True)


class Library(StrEnum):
    """A library, by the interface that it serves."""

    NDK = "ndk"
    TFLITE = "tflite"
    LITERT = "litert"


@app.command()
def build(
    out: Annotated[Path | None, typer.Option(help="Where to put them; by default into the package.")] = None,
) -> None:
    """Build the libraries from their sources, with g++."""
    if not _SOURCES.exists():
        raise typer.BadParameter("this installation has no sources, and its libraries are built: nnhal native path ndk")
    folder = [] if out is None else [str(out.resolve())]
    raise typer.Exit(subprocess.run([sys.executable, str(_SOURCES), *folder], check=False).returncode)


@app.command()
def path(library: Library) -> None:
    """Print the path of a library."""
    typer.echo(_found(library))


@app.command()
def run(
    program: Annotated[
        list[str], typer.Argument(help="The program and its arguments, behind --.", metavar="PROGRAM...")
    ],
    framework: Annotated[Path | None, typer.Option(help="The framework's directory.", metavar="DIR")] = None,
) -> None:
    """Run a program with the libraries: nnhal native run -- ./classify image.ppm

    Without --framework and NNHAL_FRAMEWORK it is the framework of the "nnhal up" that runs; if none does, its devices
    are started, and end with the program.
    """
    found_program(program[0])
    folders = dict.fromkeys(str(_found(library).parent) for library in Library)
    searched = os.pathsep.join([*folders, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])
    launch(program, {"LD_LIBRARY_PATH": searched}, framework)


def _found(library: Library) -> Path:
    try:
        return library_path(library)
    except FileNotFoundError as error:
        raise typer.BadParameter(str(error)) from error
