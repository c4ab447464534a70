"""``nnhal device``, ``nnhal serve`` and ``nnhal up``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from nnhal_hosting.supervision import Supervision
from nnhal_tools.settings import ClientSettings
from nnhal_tools.up import DEFAULT_TOPOLOGY, Testbed, read_topology

PASS_THROUGH = {"allow_extra_args": True, "ignore_unknown_options": True}
"""Settings of commands that are replaced by another program, which reads its own options."""


def device(context: typer.Context) -> None:
    """Serve one emulated accelerator: nnhal device NAME --endpoint DIR."""
    _become("nnhal_devices", context.args)


def serve(context: typer.Context) -> None:
    """Serve models over devices that run already: nnhal serve --endpoint DIR --device NAME=DIR…"""
    _become("nnhal_service", context.args)


def up(
    topology: Annotated[
        Path | None, typer.Argument(help="A topology file (TOML); cpu_acc and cpu_ref without one.")
    ] = None,
    directory: Annotated[
        Path | None, typer.Option(help="Where the sockets go; NNHAL_DIRECTORY or /run/nnhal by default.")
    ] = None,
    model_repository: Annotated[
        Path | None, typer.Option(help="A folder of models to serve over HTTP (port 8000) and gRPC (port 8001).")
    ] = None,
) -> None:
    """Start devices and a framework, watch over them, and stop them all on SIGINT or SIGTERM.

    A process that dies is started again. The framework is reached at DIRECTORY/framework.
    """
    chosen = read_topology(topology) if topology else DEFAULT_TOPOLOGY
    if model_repository is not None:
        chosen = chosen.serving(model_repository.resolve())
    root = (directory or ClientSettings().directory).resolve()
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    supervision = Supervision(None)
    with Testbed(chosen, root, lambda line: console.print(line, markup=False)) as testbed:
        console.print(f"ready: {testbed.framework}", markup=False)
        supervision.wait()
        console.print("stopping", markup=False)


def _become(module: str, arguments: list[str]) -> None:
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])
