"""``nnhal ort``: run a program that knows nothing of nnhal."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from nnhal_ort import get_library_path
from nnhal_tools.cli.launch import found_program, launch

_LAUNCHED = Path(__file__).with_name("launched")


def ort(
    program: Annotated[
        list[str], typer.Argument(help="The program and its arguments, behind --.", metavar="PROGRAM...")
    ],
    framework: Annotated[Path | None, typer.Option(help="The framework's directory.", metavar="DIR")] = None,
) -> None:
    """Run a Python program whose ONNX Runtime gives models to nnhal: nnhal ort -- python app.py

    Without --framework and NNHAL_FRAMEWORK it is the framework of the "nnhal up" that runs; if none does, its devices
    are started, and end with the program.
    """
    found_program(program[0])
    if ignoring := _option_that_ignores(program):
        raise typer.BadParameter(f"with {ignoring} Python does not read PYTHONPATH, by which it would find nnhal")
    get_library_path()
    searched = os.pathsep.join([str(_LAUNCHED), *filter(None, [os.environ.get("PYTHONPATH")])])
    launch(program, {"PYTHONPATH": searched}, framework)


def _option_that_ignores(program: Sequence[str]) -> str:
    """The option of Python by which it reads no environment, or no sitecustomize; empty if it is given none."""
    words = iter(program[1:] if Path(program[0]).name.startswith("python") else ())
    for word in words:
        if not word.startswith("-") or word in ("-", "--"):
            break
        options = "" if word.startswith("--") else word[1:]
        for number, option in enumerate(options):
            if option in "EIS":
                return f"-{option}"
            if option in "cm":
                return ""
            if option in "WX":
                if number == len(options) - 1:
                    next(words, "")
                break
    return ""
