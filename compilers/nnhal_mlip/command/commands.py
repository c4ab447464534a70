"""``nnhal mlip``: share a network with Marvell's accelerator, compile it, simulate it, and tell where its time goes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from nnhal_pages.command_parameters import taking
from nnhal_pages.report import tell

if TYPE_CHECKING:
    from nnhal_mlip.command.compiling import CompiledNetwork

app = typer.Typer(
    help="Compile a network for an MLIP: what it takes and why not the rest, files, binaries, modelled time.",
    no_args_is_help=True,
    add_completion=False,
)

ModelFile = Annotated[Path, typer.Argument(help="An ONNX or TFLite model.", metavar="MODEL")]
Public = Annotated[bool, typer.Option("--public", help="Take only what the public flow (TVM 0.19) takes.")]
Keep = Annotated[
    int | None, typer.Option(help="Keep the first N layers and give the rest to the host.", min=0, metavar="N")
]
ToHost = Annotated[
    list[str] | None, typer.Option(help="Give the node NAME to the host; may be repeated.", metavar="NAME")
]
Shape = Annotated[
    list[str] | None,
    typer.Option(help="Fix the dimensions of an input; may be repeated.", metavar="INPUT:1x3x224x224"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Profile = Annotated[str, typer.Option(help="The profile with the figures of the hardware: a name or a TOML file.")]


class StrictCommand(TyperCommand):
    """A command whose error of an unknown option lists the known ones."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except Exception as error:  # click's class: typer has a private copy of it
            if hasattr(error, "option_name") and hasattr(error, "possibilities"):
                error.possibilities = [
                    name for parameter in self.params for name in parameter.opts if name.startswith("-")
                ]
            raise


@app.callback()
def _mlip() -> None:
    """Compile a network for an MLIP: what it takes and why not the rest, files, binaries, modelled time."""


@app.command("partition", cls=StrictCommand)
def partition(
    model: ModelFile,
    explain: Annotated[bool, typer.Option("--explain", help="Show all layers, and why the rest is not taken.")] = False,
    public: Public = False,
    keep: Keep = None,
    to_host: ToHost = None,
    shape: Shape = None,
    profile: Profile = "cn106",
    as_json: AsJson = False,
) -> None:
    """Show which layers of a network the accelerator takes, in which subgraphs, and why the rest stays on the host."""
    from nnhal_frontends.input_shapes import parse_shapes
    from nnhal_mlip.command.model_file import read_flow_model
    from nnhal_mlip.command.partition_report import partition_report, share
    from nnhal_mlip.command.rendering import partition_parts
    from nnhal_mlip.flow.flow_partition import FlowOptions
    from nnhal_mlip.timing.profile import read_profile

    choices = FlowOptions(not public, keep=keep, to_host=tuple(to_host or ()))
    figures = read_profile(profile)
    found = read_flow_model(model, parse_shapes(shape or ()), public)
    report = partition_report(found, share(found.graph, choices, figures, 8, False), choices)
    tell(report, partition_parts(report, explain), as_json)


def _compiled(
    model: ModelFile,
    mattr: Annotated[
        str,
        typer.Option(
            "--mattr",
            "--target-mrvl-mattr",
            help="Options in the public flow's form: '-quantize=fp16 -num_tiles=8 -wb_pin_ocm=0 sim', or with commas.",
        ),
    ] = "",
    target: Annotated[
        str, typer.Option("--target", help="As TVM has it: 'mrvl, llvm', with llvm for what stays on the host.")
    ] = "mrvl, llvm",
    mcpu: Annotated[str, typer.Option("--mcpu", "--target-mrvl-mcpu", help="The part: cn10ka or cnf10kb.")] = "cn10ka",
    num_tiles: Annotated[
        int | None,
        typer.Option("--num-tiles", "--target-mrvl-num_tiles", help="The most tiles: 1, 2, 4 or 8.", metavar="N"),
    ] = None,
    quantize: Annotated[
        str | None, typer.Option(help="The arithmetic: fp16 or int8. 8-bit models are int8.", metavar="TYPE")
    ] = None,
    wb_pin_ocm: Annotated[
        bool, typer.Option("--wb-pin-ocm", help="Put the weights into on-chip memory when a binary is loaded.")
    ] = False,
    calibrate: Annotated[
        list[Path] | None,
        typer.Option(
            help="Samples of the inputs for int8: an npz file, or a folder of them; may be repeated.", metavar="PATH"
        ),
    ] = None,
    public: Public = False,
    keep: Keep = None,
    to_host: ToHost = None,
    shape: Shape = None,
    profile: Profile = "cn106",
) -> CompiledNetwork:
    """Compile a network by the options of a command."""
    from nnhal_frontends.input_shapes import parse_shapes
    from nnhal_mlip.command.compiling import CompilationRequest, compile_network, target_options
    from nnhal_mlip.flow.files.options import check_target
    from nnhal_mlip.flow.flow_partition import FlowOptions
    from nnhal_mlip.timing.profile import read_profile

    check_target(target)
    return compile_network(
        CompilationRequest(
            model,
            target_options(mattr, mcpu, num_tiles, quantize, wb_pin_ocm),
            read_profile(profile),
            FlowOptions(not public, keep=keep, to_host=tuple(to_host or ())),
            parse_shapes(shape or ()),
            tuple(calibrate or ()),
        )
    )


def _of_a_network(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a compilation; it gets the compiled network before its own arguments."""
    shared, (_, *own) = (
        signature(each, locals={"CompiledNetwork": object}, eval_str=True).parameters.values()
        for each in (_compiled, command)
    )

    @wraps(command)
    def run(**given: Any) -> None:
        network = _compiled(**{parameter.name: given.pop(parameter.name) for parameter in shared})
        command(network, **given)

    return taking((*shared, *own), run)


@app.command("compile", cls=StrictCommand)
@_of_a_network
def compile_(
    network: CompiledNetwork,
    out: Annotated[Path, typer.Option(help="The folder to write into.", metavar="DIR")],
    as_json: AsJson = False,
) -> None:
    """Compile a network into a folder: for each subgraph two JSON files, a binary and a memory map.

    What does not fit the tiles is refused with what would, and the exit status is 1. Nothing is written then.

    nnhal mlip compile tools/nnhal_tools/demo/data/digits.onnx --out build
    """
    from nnhal_mlip.command.rendering import compilation_parts

    files = network.write(out)
    tell({**network.as_dict(), "files": files}, compilation_parts(network, out, files), as_json)


@app.command("simulate", cls=StrictCommand)
@_of_a_network
def simulate(
    network: CompiledNetwork,
    given: Annotated[
        Path, typer.Option("--input", help="An npz file with an array for each input.", metavar="FILE.npz")
    ],
    output: Annotated[Path | None, typer.Option(help="Save the outputs to FILE.npz.", metavar="FILE.npz")] = None,
    trace: Annotated[
        Path | None, typer.Option(help="Write a trace for Perfetto or Chrome to FILE.", metavar="FILE.json")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a network: its binaries on the simulator in their own arithmetic, the rest by the reference."""
    from nnhal_mlip.command.rendering import simulation_parts
    from nnhal_mlip.command.samples import write_arrays
    from nnhal_mlip.command.simulation import network_trace
    from nnhal_mlip.command.simulation import simulate as run

    result = run(network, given)
    if output is not None:
        write_arrays(output, result.outputs)
    if trace is not None:
        trace.write_text(json.dumps(network_trace(network)), encoding="utf-8")
    content = {
        "model": network.model.name,
        "modelled": True,
        "profile": network.request.profile.name,
        "outputs": {name: array.tolist() for name, array in result.outputs.items()},
        "binaries": {
            symbol: {
                "cycles": each.timeline.total,
                "hardware_ns": each.hardware_ns,
                "firmware_ns": each.firmware_ns,
                "counters": asdict(each.counters),
            }
            for symbol, each in result.runs.items()
        },
    }
    saved = [f"saved to {written}" for written in (output, trace) if written is not None]
    tell(content, [*simulation_parts(network, result), *saved], as_json)


@app.command("perf", cls=StrictCommand)
@_of_a_network
def perf(
    network: CompiledNetwork,
    html: Annotated[
        Path | None, typer.Option(help="Write a page with layers, tiles and memory to FILE.", metavar="FILE")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Tell where the modelled time of a network goes: by layer and tile, and what binds each."""
    from nnhal_mlip.command.network_perf import network_perf
    from nnhal_mlip.command.rendering import perf_page, perf_parts

    found = network_perf(network)
    if html is not None:
        html.write_text(perf_page(network), encoding="utf-8")
    tell({**asdict(found), "whole_ns": found.whole_ns}, perf_parts(found), as_json)


ModelName = Annotated[
    str, typer.Option("--model_name", "--model-name", help="The name of the network: the binary is NAME.bin.")
]
Arch = Annotated[str, typer.Option("--arch", help="The accelerator: MLIP.")]


@app.command("build", cls=StrictCommand)
def build(
    model_name: ModelName,
    nodes: Annotated[Path, typer.Option("--nodes", help="The nodes file of a subgraph.", metavar="FILE.json")],
    consts: Annotated[Path, typer.Option("--consts", help="Its constants file.", metavar="FILE.json")],
    arch: Arch = "MLIP",
    dram_addr_relocatable: Annotated[
        int, typer.Option("--dram_addr_relocatable", help="1: the driver places what lies in DRAM.")
    ] = 1,
    ocm_base: Annotated[
        str, typer.Option("--ocm_base", "-ocm_base", help="The first byte of each tile's memory that may be used.")
    ] = "0x0",
    ocm_size: Annotated[
        str, typer.Option("--ocm_size", "-ocm_size", help="How many bytes of each tile's memory.")
    ] = "0x100000",
    num_tiles: Annotated[int, typer.Option("--num_tiles", "--num-tiles", help="The most tiles: 1, 2, 4 or 8.")] = 8,
    quantize: Annotated[str, typer.Option("--quantize", help="float16 (or fp16) or int8.")] = "float16",
    wb_pin_ocm: Annotated[
        bool, typer.Option("--wb_pin_ocm", "--wb-pin-ocm", help="Put the weights into on-chip memory at load.")
    ] = False,
    ranges: Annotated[
        Path | None, typer.Option(help="For int8: a calibration.json, if the files have no scales.", metavar="FILE")
    ] = None,
    profile: Profile = "cn106",
) -> None:
    """Compile a pair of a nodes file and a constants file into the binary NAME.bin, in the working directory."""
    from nnhal_mlip.command import mrvl
    from nnhal_mlip.timing.profile import read_profile

    figures = read_profile(profile)
    compiled = mrvl.build(
        nodes,
        consts,
        arch=arch,
        quantize=quantize,
        num_tiles=num_tiles,
        ocm_base=ocm_base,
        ocm_size=ocm_size,
        dram_addr_relocatable=dram_addr_relocatable,
        wb_pin_ocm=wb_pin_ocm,
        ranges=ranges,
        profile=profile,
    )
    target = Path(f"{model_name}.bin")
    target.write_bytes(compiled.binary)
    microseconds = figures.nanoseconds(compiled.cycles) / 1000
    print(
        f"{compiled.program.name}: {compiled.program.type.name.lower()} on {compiled.program.tiles} tiles; "
        f"{len(compiled.binary):,} bytes; modelled {compiled.cycles:,} cycles, {microseconds:.1f} µs by profile "
        f"{figures.name}; written to {target}"
    )


@app.command("run", cls=StrictCommand)
def run(
    model_binary: Annotated[
        Path, typer.Option("--model_binary", "--model-binary", help="A binary of an MLIP.", metavar="FILE.bin")
    ],
    inputs: Annotated[
        list[Path],
        typer.Option(
            "--inputs", help="The bytes of an input, float32 or the binary's type, or an npy file; once for each."
        ),
    ],
    arch: Arch = "MLIP",
    perf_debug: Annotated[
        bool, typer.Option("--perf_debug", "--perf-debug", help="Show where the modelled time goes.")
    ] = False,
    output: Annotated[Path | None, typer.Option(help="In place of NAME-output.bin.", metavar="FILE")] = None,
    profile: Profile = "cn106",
) -> None:
    """Run a binary on the simulator, and save its outputs, one behind the other, to NAME-output.bin."""
    from nnhal_mlip.command import mrvl
    from nnhal_mlip.flow.files.options import parse_options
    from nnhal_mlip.simulator.report import perf_report
    from nnhal_mlip.timing.profile import read_profile

    parse_options(f"arch={arch}")
    figures = read_profile(profile)
    simulator, result = mrvl.run_binary(model_binary, inputs, profile)
    target = output or Path(f"{model_binary.stem}-output.bin")
    target.write_bytes(mrvl.output_bytes(result))
    print(
        f"{simulator.program.name}: modelled {result.timeline.total:,} cycles, {result.hardware_ns / 1000:.1f} µs, and "
        f"{result.firmware_ns / 1000:.1f} µs of firmware by profile {figures.name}"
    )
    begin = 0
    for port, array in zip(simulator.program.outputs, result.outputs, strict=True):
        print(
            f"{port.name} {array.dtype.name} {list(array.shape)}: bytes {begin} to {begin + array.nbytes} of {target}"
        )
        begin += array.nbytes
    if perf_debug:
        from nnhal_mlip.command.rendering import report_parts

        tell({}, report_parts(perf_report(simulator.program, simulator.timeline, figures)), False)


@app.command("inspect", cls=StrictCommand)
def inspect(
    binary: Annotated[Path, typer.Argument(help="A binary of an MLIP.", metavar="BINARY")],
) -> None:
    """Check a binary, and show its metadata, its layers and its program as text."""
    from nnhal.given_files import MOST_MODEL_BYTES, read_given_file
    from nnhal_mlip.command.binary_listing import listing
    from nnhal_mlip.program.binary import read_binary

    for line in listing(read_binary(read_given_file(binary, MOST_MODEL_BYTES, "a binary"))):
        print(line)
