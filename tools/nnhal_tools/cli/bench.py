"""``nnhal bench``: what things cost, against a named floor, in one run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from nnhal_tools.bench.chain import chain
from nnhal_tools.bench.fallback import fallback
from nnhal_tools.bench.hop import hop
from nnhal_tools.bench.modes import modes
from nnhal_tools.bench.runner import command_of_scenario
from nnhal_tools.cli.bench_model import bench_model

_MODEL = "MODEL"


class _ModelOrCommand(TyperGroup):
    """Takes what is no command of its own as the arguments of the command MODEL."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        is_own = not args or args[0] in ("--help", *self.commands)
        if args and args[0] in self.commands and Path(args[0]).is_file():
            print(f"nnhal bench {args[0]} is a command; the file of that name is ./{args[0]}", file=sys.stderr)
        return super().parse_args(ctx, args if is_own else [_MODEL, *args])


app = typer.Typer(
    cls=_ModelOrCommand,
    help="Measure, against a named floor, in one run: nnhal bench MODEL for a file, or one of the commands.\n\n"
    "nnhal bench hop\n\nnnhal bench modes\n\nnnhal bench fallback",
    no_args_is_help=True,
    add_completion=False,
)
app.command(_MODEL)(bench_model)
for _scenario in (hop, chain, modes, fallback):
    app.command(_scenario.__name__)(command_of_scenario(_scenario))


@app.callback()
def _bench() -> None:
    """Measure, against a named floor, in one run: nnhal bench MODEL for a file, or one of the commands."""
