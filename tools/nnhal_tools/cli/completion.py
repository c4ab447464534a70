"""``nnhal completion``, and the names that shells complete: drivers, running processes, models that are served.

A name that cannot be had is left out: completion shows no errors.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from enum import StrEnum
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import CompletionItem, TyperCommand  # type: ignore[attr-defined] # typer hands it on unnamed

from nnhal_tools.cli.programs import PROGRAMS

_VARIABLE = "_NNHAL_COMPLETE"
_OPTION = re.compile(r"^ +(--[a-z][\w-]*)", re.MULTILINE)


class Shell(StrEnum):
    """A shell that completes words."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="The shell that is to read it.")]) -> None:
    """Print what has a shell complete commands, options and names: eval "$(nnhal completion bash)".

    zsh reads the same, after 'autoload -Uz compinit && compinit'; for fish: nnhal completion fish | source
    """
    from nnhal_tools.cli.app import app

    os.environ[_VARIABLE] = f"source_{shell}"
    app(prog_name="nnhal")


def complete_driver(incomplete: str) -> list[str]:
    """The drivers of nnhal and of installed packages; those of backend files only their own process knows."""
    from nnhal_tools.up.drivers import drivers_of_nnhal

    installed = {point.name for point in entry_points(group="nnhal.drivers")}
    return _beginning(drivers_of_nnhal() | installed, incomplete)


def complete_drivers(incomplete: str) -> list[str]:
    """The last driver of a list with commas between."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in complete_driver(last) if name not in before.split(",")]


def complete_process(context: typer.Context, incomplete: str) -> list[str]:
    """The processes that have sockets below the directory."""
    from nnhal.endpoint import endpoints_below

    return _beginning((endpoint.directory.name for endpoint in endpoints_below(_directory(context))), incomplete)


def complete_model(context: typer.Context, incomplete: str) -> list[str]:
    """The models that the framework below the directory serves or could load."""
    from nnhal.errors import NnhalError
    from nnhal_tools.cli.operating import operator_at

    with contextlib.suppress(NnhalError, OSError, ValueError):
        key = context.params.get("admin_key")
        with operator_at(_directory(context), key) as operator:
            models = operator.contacts.framework().framework().models
            return _beginning({served.name for served in models}, incomplete)
    return []


class ProgramCommand(TyperCommand):
    """A command that becomes another program, whose help names the options."""

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Return the options that begin so; for a device also the drivers."""
        words = complete_driver(incomplete) if self.name == "device" and not incomplete.startswith("-") else []
        if incomplete.startswith("-") and self.name in PROGRAMS:
            words = complete_option(self.name, incomplete)
        elif self.name == "watched":
            words = _beginning(PROGRAMS, incomplete)
        return [CompletionItem(word) for word in words]


def complete_option(program: str, incomplete: str) -> list[str]:
    """The options that the help of a program names, which is a command's name."""
    help_command = [sys.executable, "-m", PROGRAMS[program], "--help"]
    result = subprocess.run(help_command, capture_output=True, text=True, check=False)
    return _beginning({"--help", *_OPTION.findall(result.stdout)}, incomplete)


def _directory(context: typer.Context) -> Path:
    from nnhal_tools.settings import ClientSettings

    return context.params.get("directory") or ClientSettings().directory


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))
