"""Options of the commands that take a model file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from nnhal.near_names import did_you_mean, there_are
from nnhal_tools.up import Topology

_PIN_KINDS = ("name", "op", "index")

Lengths = Annotated[
    list[str] | None,
    typer.Option(
        "--dim", metavar="NAME=N", help="Fix an open dimension by the name that the model has for it; may be repeated."
    ),
]
Shapes = Annotated[
    list[str] | None,
    typer.Option("--shape", metavar="INPUT:1x3x224x224", help="Fix the dimensions of an input; may be repeated."),
]
SignatureName = Annotated[
    str, typer.Option("--signature", metavar="NAME", help="The entry point of a TFLite file that names several.")
]
Everything = Annotated[
    bool, typer.Option("--all", help="Show all operations, edges and steps too, and what was copied.")
]
Pins = Annotated[
    list[str] | None,
    typer.Option("--pin", help="name:GLOB=DEVICE, op:TYPE=DEVICE or index:N=DEVICE; may be given several times."),
]


def pins_from(texts: Sequence[str], topology: Topology | None = None) -> dict[str, str]:
    """Pins by pattern. Raises ValueError if a text is not PATTERN=DEVICE, or the topology has no such device."""
    names = None if topology is None else [entry.title for entry in topology.device]
    pins = {}
    for text in texts:
        match, separator, device = text.rpartition("=")
        kind = match.partition(":")[0]
        if not separator or kind not in _PIN_KINDS:
            expected = "expected name:GLOB=DEVICE, op:TYPE=DEVICE or index:N=DEVICE"
            raise ValueError(f"pin {text!r}: {expected}{did_you_mean(kind, _PIN_KINDS)}")
        if names is not None and device not in names:
            raise ValueError(f"pin {text!r}: no device {device!r}; {there_are(device, names)}")
        pins[match] = device
    return pins
