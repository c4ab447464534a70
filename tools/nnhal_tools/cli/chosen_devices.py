"""The devices that a command is given: a topology file, or a list."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from nnhal_tools.up import Topology

from nnhal_tools.cli.completion import complete_drivers

DevicesOption = Annotated[
    str,
    typer.Option(
        metavar="LIST",
        help="Drivers and directories of running devices, as NAME=DIR or DIR, with commas between, in order of "
        "preference. cpu_acc,cpu_ref without it.",
        autocompletion=complete_drivers,
    ),
]
TopologyOption = Annotated[Path | None, typer.Option(help="A topology file (TOML) instead of --devices.")]


def chosen_topology(devices: str, topology: Path | None) -> Topology:
    """The devices of a list or of a file, those by default without both. Raises ValueError for both, TopologyError."""
    from nnhal_tools.up import (  # not for 'nnhal device' and the like, which read options
        DEFAULT_TOPOLOGY,
        read_topology,
    )
    from nnhal_tools.up.drivers import listed_topology

    if devices and topology:
        raise ValueError(f"got --devices {devices} and the topology {topology}, expected one of both")
    if topology:
        return read_topology(topology)
    return listed_topology(devices) if devices else DEFAULT_TOPOLOGY
