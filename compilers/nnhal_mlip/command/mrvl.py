"""The steps of the flow by the names that the proposal for TVM gives them, for notebooks, scripts and commands.

They lead from a model's file to a partition, to a pair of JSON files for each subgraph, to a binary, to its outputs.
The proposal begins with Relay, which TVM has removed; so here a step takes a file in ONNX or TFLite. It also names
MXNet, which is retired: export such a network to ONNX.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from nnhal.arrays import Array
from nnhal.given_arrays import read_given_arrays
from nnhal.given_files import MOST_MODEL_BYTES, parse_json, read_given_file
from nnhal_mlip.command.model_file import read_flow_model
from nnhal_mlip.command.partition_report import share
from nnhal_mlip.compiler.compiler import CompiledSubgraph, compile_files
from nnhal_mlip.compiler.compiler_options import MlipCompilerOptions
from nnhal_mlip.flow.files.describing import describe
from nnhal_mlip.flow.files.options import parse_options
from nnhal_mlip.flow.files.subgraph_files import read_files
from nnhal_mlip.flow.flow_partition import FlowOptions, FlowPartition
from nnhal_mlip.program.program import MAX_TILES, OCM_BYTES, ProgramPort
from nnhal_mlip.simulator.memory import ELEMENT_DTYPES
from nnhal_mlip.simulator.simulator import SimulatedRun, Simulator
from nnhal_mlip.timing.profile import DEFAULT_PROFILE, read_profile

__all__ = ["build", "dump_json_meta_data_files", "partition_for_mrvl", "run"]

GivenPath = str | os.PathLike[str]
_MOST_RANGES_BYTES = 64 << 20


def partition_for_mrvl(
    model: GivenPath,
    *,
    mattr: str = "",
    shapes: Mapping[str, Sequence[int]] | None = None,
    public: bool = False,
    keep: int | None = None,
    to_host: Sequence[str] = (),
) -> FlowPartition:
    """Return what the accelerator takes of an ONNX or TFLite model, and why not the rest.

    ``mattr`` has the words of the target, such as ``-num_tiles=4``. The other arguments are the options of ``nnhal
    mlip partition``.

    Raises OSError if the file cannot be read, and NnhalError or ValueError if something is not what it has to be.
    """
    target = parse_options(mattr)
    choices = FlowOptions(not public, keep=keep, to_host=tuple(to_host))
    graph = read_flow_model(Path(model), shapes, public).graph
    return share(graph, choices, read_profile(), target.num_tiles, target.wb_pin_ocm)


def dump_json_meta_data_files(partition: FlowPartition, folder: GivenPath = ".") -> list[tuple[Path, Path]]:
    """Write the nodes file and the constants file of each subgraph into a folder, and return their paths.

    Raises OSError, and FlowFilesError, with the user's name of the layer, if a file cannot hold it.
    """
    Path(folder).mkdir(parents=True, exist_ok=True)
    return [describe(partition, subgraph).write(folder) for subgraph in partition.subgraphs]


def build(
    nodes: GivenPath,
    constants: GivenPath,
    *,
    arch: str = "MLIP",
    quantize: str = "float16",
    num_tiles: int = MAX_TILES,
    ocm_base: int | str = 0,
    ocm_size: int | str = OCM_BYTES,
    dram_addr_relocatable: int = 1,
    wb_pin_ocm: bool = False,
    ranges: GivenPath | None = None,
    profile: GivenPath = DEFAULT_PROFILE,
) -> CompiledSubgraph:
    """Compile a pair of files. The result's ``binary`` is what ``nnhal mlip build`` writes.

    ``ranges`` is a calibration.json, which int8 needs if the files have no scales.

    Raises:
        OSError: a file cannot be read.
        NnhalError, ValueError: a file or an option is not what it has to be, or something does not fit.
    """
    if dram_addr_relocatable != 1:
        raise ValueError(
            f"option dram_addr_relocatable: got {dram_addr_relocatable}, expected 1: a binary has offsets into "
            "DRAM, which the driver places"
        )
    given = parse_options(f"arch={arch} quantize={quantize} num_tiles={num_tiles}")
    options = MlipCompilerOptions(
        quantize="int8" if given.quantize == "int8" else "fp16",
        num_tiles=given.num_tiles,
        wb_pin_ocm=wb_pin_ocm,
        ranges=_ranges(Path(ranges)) if ranges else {},
        profile=read_profile(profile),
        ocm_base=_number("ocm_base", ocm_base),
        ocm_size=_number("ocm_size", ocm_size),
    )
    return compile_files(read_files(nodes, constants), options)


def run(binary: GivenPath, inputs: Sequence[GivenPath]) -> list[Array]:
    """Return the outputs of a binary in float32. Takes and raises what ``run_binary`` does."""
    _, found = run_binary(binary, inputs)
    return [np.asarray(each, np.float32) for each in found.outputs]


def run_binary(
    binary: GivenPath, inputs: Sequence[GivenPath], profile: GivenPath = DEFAULT_PROFILE
) -> tuple[Simulator, SimulatedRun]:
    """Run a binary. A file holds an input's bytes, in float32 or in the program's own type, or is an npy file.

    Raises what ``build`` does.
    """
    simulator = Simulator(read_given_file(Path(binary), MOST_MODEL_BYTES, "a binary"), read_profile(profile))
    ports = simulator.program.inputs
    if len(inputs) != len(ports):
        expected = ", ".join(f"{port.name} {list(port.shape)}" for port in ports)
        raise ValueError(f"{binary}: got {len(inputs)} files of inputs, expected {len(ports)}, one each of {expected}")
    return simulator, simulator.run([_input(Path(path), port) for path, port in zip(inputs, ports, strict=True)])


def output_bytes(run: SimulatedRun) -> bytes:
    """Return the outputs, one behind the other, as the driver returns them."""
    return b"".join(np.ascontiguousarray(each).tobytes() for each in run.outputs)


def _input(path: Path, port: ProgramPort) -> Array:
    if path.suffix == ".npy":
        return read_given_arrays(path, "an array in .npy")[""]
    content = read_given_file(path, MOST_MODEL_BYTES, "an input")
    own = ELEMENT_DTYPES[port.type]
    count = int(np.prod(port.shape))
    for dtype in (np.dtype(np.float32), own):
        if len(content) == count * dtype.itemsize:
            return np.frombuffer(content, dtype).reshape(port.shape)
    raise ValueError(
        f"{path}: got {len(content)} bytes for input {port.name}, expected {count} numbers of shape {list(port.shape)} "
        f"in float32 or {own.name}"
    )


def _ranges(path: Path) -> Mapping[str, tuple[float, float]]:
    try:
        found = parse_json(read_given_file(path, _MOST_RANGES_BYTES, "ranges"))["ranges"]
        return {name: (float(low), float(high)) for name, (low, high) in found.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: expected a calibration.json of 'nnhal mlip compile': {error}") from error


def _number(name: str, given: int | str) -> int:
    try:
        return int(given, 0) if isinstance(given, str) else given
    except ValueError:
        raise ValueError(f"option {name}: got {given!r}, expected a number such as 0x100000") from None
