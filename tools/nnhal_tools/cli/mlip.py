"""``nnhal mlip``: share a network with Marvell's accelerator, compile it, simulate it, and tell where its time goes."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from nnhal_tools.cli.strict_options import StrictCommand

app = typer.Typer(
    help="Compile a network for an MLIP: what the accelerator takes and why not the rest, files, binaries, modelled time.",
    no_args_is_help=True,
    add_completion=False,
)

ModelFile = Annotated[Path, typer.Argument(help="An ONNX or TFLite model.", metavar="MODEL")]
Public = Annotated[bool, typer.Option("--public", help="Take only what the public flow (TVM 0.19) takes.")]
ByCost = Annotated[bool, typer.Option("--by-cost", help="Give back every subgraph that the host computes faster.")]
NoRevert = Annotated[bool, typer.Option("--no-revert", help="Give no subgraph back to the host.")]
Keep = Annotated[
    int | None, typer.Option(help="Keep the first N layers and give the rest to the host.", min=0, metavar="N")
]
ToHost = Annotated[
    list[str] | None, typer.Option(help="Give the node NAME to the host; may be repeated.", metavar="NAME")
]
Shape = Annotated[
    list[str] | None,
    typer.Option(help="Fix an input's shape: x=1,3,224,224; may be repeated.", metavar="INPUT=SHAPE"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Profile = Annotated[str, typer.Option(help="The profile with the figures of the hardware: a name or a TOML file.")]


@app.callback()
def _mlip() -> None:
    """Compile a network for an MLIP: what the accelerator takes and why not the rest, files, binaries, modelled time."""


@app.command("partition", cls=StrictCommand)
def partition(
    model: ModelFile,
    explain: Annotated[bool, typer.Option("--explain", help="Show all layers, and why the rest is not taken.")] = False,
    public: Public = False,
    by_cost: ByCost = False,
    no_revert: NoRevert = False,
    keep: Keep = None,
    to_host: ToHost = None,
    shape: Shape = None,
    profile: Profile = "cn106",
    as_json: AsJson = False,
) -> None:
    """Show which layers of a network the accelerator takes, in which subgraphs, and why the rest stays on the host."""
    from nnhal_devices.mlip.timing.profile import read_profile
    from nnhal_tools.mlip.input_shapes import parse_shapes
    from nnhal_tools.mlip.model_file import read_flow_model
    from nnhal_tools.mlip.partition_story import tell_partition
    from nnhal_tools.mlip.sharing import share, sharing_choices

    choices = sharing_choices(public, by_cost, no_revert, keep, to_host or ())
    figures = read_profile(profile)
    found = read_flow_model(model, parse_shapes(shape or ()))
    story = tell_partition(found.name, share(found.graph, choices, figures, 8, False), choices)
    if as_json:
        print(json.dumps(asdict(story)))
    else:
        from nnhal_tools.mlip.partition_tables import show_partition
        from nnhal_tools.terminal import output_console

        show_partition(story, explain, output_console())
