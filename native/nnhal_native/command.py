"""``nnhal native``: build the libraries, find them, and run programs with them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from nnhal_native import library_path

_SOURCES = Path(__file__).parents[1] / "build_libraries.py"
_FRAMEWORK = "NNHAL_FRAMEWORK"

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

    Without --framework and NNHAL_FRAMEWORK the devices of "nnhal up" are started, and end with the program.
    """
    executable = shutil.which(program[0])
    if executable is None:
        raise typer.BadParameter(f"there is no program {program[0]!r}")
    folders = dict.fromkeys(str(_found(library).parent) for library in Library)
    environment = dict(os.environ)
    environment["LD_LIBRARY_PATH"] = os.pathsep.join([*folders, *filter(None, [environment.get("LD_LIBRARY_PATH")])])
    if framework is not None:
        environment[_FRAMEWORK] = str(framework.resolve())
    if environment.get(_FRAMEWORK):
        os.execve(executable, program, environment)
    with _framework() as started:
        raise typer.Exit(_exit_code(executable, program, {**environment, _FRAMEWORK: str(started)}))


def _found(library: Library) -> Path:
    try:
        return library_path(library)
    except FileNotFoundError as error:
        raise typer.BadParameter(str(error)) from error


@contextmanager
def _framework() -> Iterator[Path]:
    """Run the default testbed, and yield the framework's directory."""
    from nnhal_tools.up import DEFAULT_TOPOLOGY, Testbed

    with (
        tempfile.TemporaryDirectory(prefix="nnhal-") as directory,
        Testbed(DEFAULT_TOPOLOGY, Path(directory)) as testbed,
    ):
        yield testbed.framework


def _exit_code(executable: str, program: list[str], environment: Mapping[str, str]) -> int:
    """Run a program to its end. An interrupt of the terminal is the program's to answer."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        child = subprocess.Popen(
            program,
            executable=executable,
            env=environment,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        code = child.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    return 128 - code if code < 0 else code
